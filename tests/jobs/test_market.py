"""The Nexmark generator: the same records in any slices, the proportions, and only references to known records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.jobs.hashed_numbers import Ints
from examples.jobs.nexmark import market as nexmark
from examples.jobs.nexmark.market import Market
from examples.jobs.random_draws import draw_below, draw_share

KINDS = ("persons", "auctions", "bids")
SCHEMAS = {"persons": nexmark.PERSON, "auctions": nexmark.AUCTION, "bids": nexmark.BID}
numbers = st.lists(st.integers(0, 10**9), min_size=1, max_size=30).map(np.array)


def rows(records: Callable[[Ints], Sequence[Any]], i: Ints) -> list[tuple[Any, ...]]:
    return list(zip(*(np.asarray(column).tolist() for column in records(i)), strict=True))


@given(numbers, st.sampled_from(KINDS), st.integers(0, 2**63))
def test_a_record_is_a_function_of_its_number_and_the_seed(i: Ints, kind: str, seed: int) -> None:
    records = getattr(Market(seed=seed), kind)
    assert rows(records, i) == [row for number in i for row in rows(records, np.array([number]))]


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_gives_another_market(kind: str) -> None:
    i = np.arange(50)
    assert rows(getattr(Market(seed=1), kind), i) != rows(getattr(Market(seed=2), kind), i)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_those_of_the_schema(kind: str) -> None:
    columns = getattr(Market(), kind)(np.arange(3))
    kinds = [column.split()[1] for column in SCHEMAS[kind].split(", ")]
    assert ["string" if isinstance(column[0], str) else "bigint" for column in columns] == kinds


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids() -> None:
    persons, auctions, bids = np.arange(20), np.arange(60), np.arange(920)
    events = [nexmark.person_event(persons), nexmark.auction_event(auctions), nexmark.bid_event(bids)]
    assert sorted(np.concatenate(events).tolist()) == list(range(1000))
    assert (events[0] % 50).tolist() == [0] * 20
    assert set((events[1] % 50).tolist()) == {1, 2, 3}


@given(st.integers(0, 10**9))
def test_the_newest_of_an_event_is_the_last_one_that_came_before_or_with_it(event: int) -> None:
    e = np.array([event])
    person, auction = nexmark.last_person(e), nexmark.last_auction(e)
    assert nexmark.person_event(person)[0] <= event < nexmark.person_event(person + 1)[0]
    assert event < nexmark.auction_event(auction + 1)[0]
    assert auction[0] == -1 or nexmark.auction_event(auction)[0] <= event


@given(numbers, st.integers(0, 100), st.integers(1, 50), st.integers(1, 50))
def test_bids_and_auctions_speak_of_recent_people_and_auctions(i: Ints, seed: int, people: int, auctions: int) -> None:
    market = Market(seed, people, auctions, hot_auctions=0.0, hot_bidders=0.0, hot_sellers=0.0)
    auction, bidder, price = map(np.asarray, market.bids(i))
    e = nexmark.bid_event(i)
    assert_recent(bidder - nexmark.FIRST_PERSON, nexmark.last_person(e), people)
    assert_recent(auction - nexmark.FIRST_AUCTION, nexmark.last_auction(e), auctions + 1)
    assert ((price >= 100) & (price <= 10**8)).all()
    _, _, initial, reserve, seller, category = market.auctions(i)
    assert_recent(np.asarray(seller) - nexmark.FIRST_PERSON, nexmark.last_person(nexmark.auction_event(i)), people)
    assert (reserve > initial).all()
    assert ((np.asarray(category) >= 10) & (np.asarray(category) < 15)).all()


def assert_recent(chosen: Ints, newest: Ints, among: int) -> None:
    """Check that references are not older than the active records and at most ten ahead."""
    assert (chosen >= 0).all()
    assert (chosen > newest - among).all()
    assert (chosen <= newest + 10).all()


def test_the_hot_ones_get_their_share() -> None:
    market = Market(hot_auctions=0.4, hot_bidders=0.7, hot_sellers=0.6)
    i = np.arange(10**6, 10**6 + 20_000)
    auction, bidder, _ = map(np.asarray, market.bids(i))
    seller = np.asarray(market.auctions(i)[4])
    # The hot one's number is a multiple of 100 above the first; others get it now and then by chance.
    assert np.mean((auction - nexmark.FIRST_AUCTION) % 100 == 0) == pytest.approx(0.4, abs=0.03)
    assert np.mean((bidder - nexmark.FIRST_PERSON) % 100 == 1) == pytest.approx(0.7, abs=0.03)
    assert np.mean((seller - nexmark.FIRST_PERSON) % 100 == 0) == pytest.approx(0.6, abs=0.03)


def test_chance_is_even_and_its_draws_do_not_depend_on_each_other() -> None:
    i = np.arange(50_000)
    one, other = draw_share(0, i, 0), draw_share(0, i, 1)
    assert np.histogram(one, 20, (0, 1))[0] / 2500 == pytest.approx(1, abs=0.1)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.02
    assert abs(np.corrcoef(one, draw_share(1, i, 0))[0, 1]) < 0.02
    assert set(draw_below(3, 0, i, 2).tolist()) == {0, 1, 2}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"seed": -1}, "seed: must be at least 0"),
        ({"active_people": 0}, "active_people: must be at least 1"),
        ({"hot_auctions": 1.5}, "hot_auctions: must lie between 0 and 1"),
    ],
)
def test_a_market_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Market(**options)
