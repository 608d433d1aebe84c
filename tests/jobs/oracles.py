"""The expected results of each job in plain Python, record by record, without Spark or Arrow.

Times are milliseconds. `until` is the last watermark: windows that end later are not emitted.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple


class Person(NamedTuple):
    id: int
    name: str
    email: str
    city: str
    state: str
    at: int


class Auction(NamedTuple):
    id: int
    item: str
    initial_bid: int
    reserve: int
    seller: int
    category: int
    at: int


class Bid(NamedTuple):
    auction: int
    bidder: int
    price: int
    at: int


def q1(bids: Iterable[Bid]) -> list[tuple[int, int, int, int]]:
    return [(bid.auction, bid.bidder, bid.price * 908 // 1000, bid.at) for bid in bids]


def q2(bids: Iterable[Bid], every: int) -> list[tuple[int, int]]:
    return [(bid.auction, bid.price) for bid in bids if bid.auction % every == 0]


def q3(persons: Iterable[Person], auctions: Iterable[Auction]) -> list[tuple[str, str, str, int]]:
    local = {person.id: person for person in persons if person.state in ("OR", "ID", "CA")}
    offers = [auction for auction in auctions if auction.category == 10 and auction.seller in local]
    return [(*_at_home(local[auction.seller]), auction.id) for auction in offers]


def q5(bids: Iterable[Bid], window: int, every: int, until: int) -> list[tuple[int, int, int]]:
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in bids:
        for start in _windows(bid.at, window, every):
            counts[start][bid.auction] += 1
    return [
        (start, auction, bids_of)
        for start, auctions in counts.items()
        if start + window <= until
        for auction, bids_of in auctions.items()
        if bids_of == max(auctions.values())
    ]


def q8(persons: Iterable[Person], auctions: Iterable[Auction], window: int) -> list[tuple[int, int, str, int, int]]:
    newcomers = {(person.at // window, person.id): person for person in persons}
    return [
        (auction.at // window * window, person.id, person.name, auction.id, auction.reserve)
        for auction in auctions
        if (person := newcomers.get((auction.at // window, auction.seller)))
    ]


def q11(bids: Iterable[Bid], gap: int, until: int) -> list[tuple[int, int, int, int]]:
    """Return the sessions. Bids must be in the order of their time."""
    sessions: dict[int, list[list[int]]] = defaultdict(list)
    for bid in bids:
        mine = sessions[bid.bidder]
        if not mine or bid.at >= mine[-1][1]:
            mine.append([bid.at, bid.at, 0])
        mine[-1][1:] = bid.at + gap, mine[-1][2] + 1
    return [
        (bidder, start, end, bids_of)
        for bidder, mine in sessions.items()
        for start, end, bids_of in mine
        if end <= until
    ]


def yahoo(events: Iterable[tuple[str, int]], table: Mapping[str, str], window: int) -> dict[tuple[str, int], int]:
    """Return the views by campaign and start of the window."""
    views: Counter[tuple[str, int]] = Counter()
    for text, at in events:
        event: dict[str, Any] = json.loads(text)
        if event["event_type"] == "view":
            views[table[event["ad_id"]], at // window * window] += 1
    return dict(views)


def _at_home(person: Person) -> tuple[str, str, str]:
    return person.name, person.city, person.state


def _windows(at: int, window: int, every: int) -> Iterator[int]:
    start = at // every * every
    while start > at - window:
        yield start
        start -= every
