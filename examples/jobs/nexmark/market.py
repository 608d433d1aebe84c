"""The auction house of Nexmark: persons, auctions and bids, each a function of its number and the seed.

    symbol   meaning                                                                 unit
    e        position of a record in the combined stream of all three kinds          events
    i        number of a record among the records of its kind                        records

Of each 50 events in a row the first is a person, three are auctions and 46 are bids. So the kind and i follow from e,
and e follows from the kind and i. An auction or a bid refers only to persons and auctions up to its e, and to a few
that come next. A few are hot: the newest auction, seller and bidder with a multiple of 100 as their number.

Proportions, numbering and shares are the same as in Beam's generator. differs: random numbers, and only the columns
that the queries read are made, without the padding of Beam's records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotrascale.domain import checks
from autotrascale.execute.spark.jobs.hashed_numbers import Ints
from examples.jobs.random_draws import draw_below, draw_share

EVENTS, PERSONS, AUCTIONS, BIDS = 50, 1, 3, 46

PERSON = "id bigint, name string, email string, city string, state string"
AUCTION = "id bigint, item string, initial_bid bigint, reserve bigint, seller bigint, category bigint"
BID = "auction bigint, bidder bigint, price bigint"
"""Prices are cents, of dollars unless a query says otherwise."""

FIRST_PERSON, FIRST_AUCTION, FIRST_CATEGORY = 1000, 1000, 10
CATEGORIES = 5
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")

_HOT_EVERY = 100  # one person or auction in 100 is hot, until the next hot one comes
_LEAD = 10  # persons and auctions that records may refer to before they come
_DECADES = 6  # prices range from 1 to 1,000,000 dollars, log-uniformly

# The numbers of the draws. Each kind has its own, because records of different kinds share numbers.
_FIRST_NAME, _LAST_NAME, _CITY, _STATE = range(4)
_SELLER_IS_HOT, _SELLER, _CATEGORY, _INITIAL, _RESERVE = range(8, 13)
_AUCTION_IS_HOT, _AUCTION, _BIDDER_IS_HOT, _BIDDER, _PRICE = range(16, 21)


@dataclass(frozen=True)
class Market:
    """The options of the generator.

    Attributes:
        seed: seed of all records.
        active_people: the newest persons that ordinary bids and auctions refer to.
        open_auctions: the newest auctions that ordinary bids refer to.
        hot_auctions: share of the bids on the hot auction; likewise `hot_bidders`, `hot_sellers`.
    """

    seed: int = 0
    active_people: int = 1000
    open_auctions: int = 100
    hot_auctions: float = 0.5
    hot_bidders: float = 0.75
    hot_sellers: float = 0.75

    def __post_init__(self) -> None:
        checks.count("seed", self.seed, least=0)
        checks.count("active_people", self.active_people)
        checks.count("open_auctions", self.open_auctions)
        for name in ("hot_auctions", "hot_bidders", "hot_sellers"):
            checks.share(name, getattr(self, name))

    def persons(self, i: Ints) -> Sequence[Any]:
        """Return the columns of `PERSON` for the records `i`."""
        first = self._choose(FIRST_NAMES, i, _FIRST_NAME)
        last = self._choose(LAST_NAMES, i, _LAST_NAME)
        ids = (FIRST_PERSON + i).tolist()
        names = [f"{a} {b}" for a, b in zip(first, last, strict=True)]
        emails = [f"{b.lower()}{number}@example.com" for b, number in zip(last, ids, strict=True)]
        return [ids, names, emails, self._choose(CITIES, i, _CITY), self._choose(STATES, i, _STATE)]

    def auctions(self, i: Ints) -> Sequence[Any]:
        """Return the columns of `AUCTION` for the records `i`."""
        e = auction_event(i)
        ids = FIRST_AUCTION + i
        items = [f"item {number}" for number in ids.tolist()]
        initial = self._draw_price(i, _INITIAL)
        category = FIRST_CATEGORY + draw_below(CATEGORIES, self.seed, i, _CATEGORY)
        hot = last_person(e) // _HOT_EVERY * _HOT_EVERY
        seller = np.where(self._is_hot(self.hot_sellers, i, _SELLER_IS_HOT), hot, self._draw_person(e, i, _SELLER))
        return [ids, items, initial, initial + self._draw_price(i, _RESERVE), FIRST_PERSON + seller, category]

    def bids(self, i: Ints) -> Sequence[Any]:
        """Return the columns of `BID` for the records `i`."""
        e = bid_event(i)
        hot_auction = last_auction(e) // _HOT_EVERY * _HOT_EVERY
        hot_bidder = last_person(e) // _HOT_EVERY * _HOT_EVERY + 1  # + 1: the hot seller has the number before
        auction = np.where(self._is_hot(self.hot_auctions, i, _AUCTION_IS_HOT), hot_auction, self._draw_auction(e, i))
        bidder = np.where(
            self._is_hot(self.hot_bidders, i, _BIDDER_IS_HOT), hot_bidder, self._draw_person(e, i, _BIDDER)
        )
        return [FIRST_AUCTION + auction, FIRST_PERSON + bidder, self._draw_price(i, _PRICE)]

    def _draw_person(self, e: Ints, i: Ints, draw: int) -> Ints:
        people = last_person(e) + 1
        active = np.minimum(people, self.active_people)
        return people - active + draw_below(active + _LEAD, self.seed, i, draw)

    def _draw_auction(self, e: Ints, i: Ints) -> Ints:
        last = last_auction(e)
        oldest = np.maximum(last - self.open_auctions, 0)
        return oldest + draw_below(last - oldest + 1 + _LEAD, self.seed, i, _AUCTION)

    def _draw_price(self, i: Ints, draw: int) -> Ints:
        return np.asarray(np.rint(100 * 10 ** (_DECADES * draw_share(self.seed, i, draw))).astype(np.int64))

    def _is_hot(self, hot_share: float, i: Ints, draw: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return draw_share(self.seed, i, draw) < hot_share

    def _choose(self, names: Sequence[str], i: Ints, draw: int) -> list[str]:
        return [names[at] for at in draw_below(len(names), self.seed, i, draw).tolist()]


def person_event(i: Ints) -> Ints:
    """Return e of the i-th person."""
    return EVENTS * i


def auction_event(i: Ints) -> Ints:
    """Return e of the i-th auction."""
    return EVENTS * (i // AUCTIONS) + PERSONS + i % AUCTIONS


def bid_event(i: Ints) -> Ints:
    """Return e of the i-th bid."""
    return EVENTS * (i // BIDS) + PERSONS + AUCTIONS + i % BIDS


def last_person(e: Ints) -> Ints:
    """Return i of the newest person up to event e."""
    return e // EVENTS


def last_auction(e: Ints) -> Ints:
    """Return i of the newest auction up to event e, or −1 before the first auction."""
    return np.asarray(AUCTIONS * (e // EVENTS) + np.clip(e % EVENTS - PERSONS, -1, AUCTIONS - 1))
