"""The auction house of Nexmark: persons, auctions and bids, each a function of its number and the seed.

    symbol   meaning                                                                 unit
    e        place of a record in the stream of all three kinds together             events
    i        number of a record among those of its own kind                          records

Of each 50 events in a row the first brings a person, three bring auctions and 46 bring bids: the kind and i follow
from e, and e from the kind and i. An auction or bid speaks only of persons and auctions that its e has seen, and of
a few that come next. Most attention goes to a few: the newest auction, seller and bidder whose number is a multiple
of 100 are hot.

Proportions, numbering and shares are those of Beam's generator. Its random numbers are not, and of the columns only
those are made that the queries read, without the padding that fills records up to a size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotrascale.domain import checks
from autotrascale.execute.spark.jobs.hashed_numbers import Ints, draw_below, draw_share

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

_HOT_EVERY = 100  # one person or auction of so many is hot, until the next
_LEAD = 10  # persons and auctions that are spoken of before they come
_DECADES = 6  # prices go from a dollar up to a million, even in their logarithm

# Which of a record's draws is which. Each kind has its own, for numbers of different kinds are the same.
_FIRST_NAME, _LAST_NAME, _CITY, _STATE = range(4)
_SELLER_IS_HOT, _SELLER, _CATEGORY, _INITIAL, _RESERVE = range(8, 13)
_AUCTION_IS_HOT, _AUCTION, _BIDDER_IS_HOT, _BIDDER, _PRICE = range(16, 21)


@dataclass(frozen=True)
class Market:
    """`hot_…` are the shares of bids and auctions that go to the hot one. Others choose among the newest
    `active_people` and `open_auctions`."""

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
        """The columns of `PERSON`."""
        first = self._among(FIRST_NAMES, i, _FIRST_NAME)
        last = self._among(LAST_NAMES, i, _LAST_NAME)
        ids = (FIRST_PERSON + i).tolist()
        names = [f"{a} {b}" for a, b in zip(first, last, strict=True)]
        emails = [f"{b.lower()}{number}@example.com" for b, number in zip(last, ids, strict=True)]
        return [ids, names, emails, self._among(CITIES, i, _CITY), self._among(STATES, i, _STATE)]

    def auctions(self, i: Ints) -> Sequence[Any]:
        """The columns of `AUCTION`."""
        e = auction_event(i)
        ids = FIRST_AUCTION + i
        items = [f"item {number}" for number in ids.tolist()]
        initial = self._price(i, _INITIAL)
        category = FIRST_CATEGORY + draw_below(CATEGORIES, self.seed, i, _CATEGORY)
        hot = last_person(e) // _HOT_EVERY * _HOT_EVERY
        seller = np.where(self._is(self.hot_sellers, i, _SELLER_IS_HOT), hot, self._person(e, i, _SELLER))
        return [ids, items, initial, initial + self._price(i, _RESERVE), FIRST_PERSON + seller, category]

    def bids(self, i: Ints) -> Sequence[Any]:
        """The columns of `BID`."""
        e = bid_event(i)
        hot_auction = last_auction(e) // _HOT_EVERY * _HOT_EVERY
        hot_bidder = last_person(e) // _HOT_EVERY * _HOT_EVERY + 1  # not the hot seller, who sits beside
        auction = np.where(self._is(self.hot_auctions, i, _AUCTION_IS_HOT), hot_auction, self._auction(e, i))
        bidder = np.where(self._is(self.hot_bidders, i, _BIDDER_IS_HOT), hot_bidder, self._person(e, i, _BIDDER))
        return [FIRST_AUCTION + auction, FIRST_PERSON + bidder, self._price(i, _PRICE)]

    def _person(self, e: Ints, i: Ints, draw: int) -> Ints:
        """One of the active people, or of those that come next."""
        people = last_person(e) + 1
        active = np.minimum(people, self.active_people)
        return people - active + draw_below(active + _LEAD, self.seed, i, draw)

    def _auction(self, e: Ints, i: Ints) -> Ints:
        """One of the open auctions, or of those that come next."""
        last = last_auction(e)
        oldest = np.maximum(last - self.open_auctions, 0)
        return oldest + draw_below(last - oldest + 1 + _LEAD, self.seed, i, _AUCTION)

    def _price(self, i: Ints, draw: int) -> Ints:
        return np.asarray(np.rint(100 * 10 ** (_DECADES * draw_share(self.seed, i, draw))).astype(np.int64))

    def _is(self, chance: float, i: Ints, draw: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return draw_share(self.seed, i, draw) < chance

    def _among(self, names: Sequence[str], i: Ints, draw: int) -> list[str]:
        return [names[at] for at in draw_below(len(names), self.seed, i, draw).tolist()]


def person_event(i: Ints) -> Ints:
    """e of the i-th person."""
    return EVENTS * i


def auction_event(i: Ints) -> Ints:
    """e of the i-th auction."""
    return EVENTS * (i // AUCTIONS) + PERSONS + i % AUCTIONS


def bid_event(i: Ints) -> Ints:
    """e of the i-th bid."""
    return EVENTS * (i // BIDS) + PERSONS + AUCTIONS + i % BIDS


def last_person(e: Ints) -> Ints:
    """i of the newest person that event e has seen."""
    return e // EVENTS


def last_auction(e: Ints) -> Ints:
    """i of the newest auction that event e has seen; -1 before the first one."""
    return np.asarray(AUCTIONS * (e // EVENTS) + np.clip(e % EVENTS - PERSONS, -1, AUCTIONS - 1))
