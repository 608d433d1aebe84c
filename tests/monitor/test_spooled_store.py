"""Nothing is lost while the store is away, and everything about it is said."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from autotrascale.domain.errors import (
    InputError,
    MetricStoreRefusedError,
    MetricStoreTooLargeError,
    MetricStoreUnavailableError,
)
from autotrascale.monitor.stores.metric_store import MetricQuery
from autotrascale.monitor.stores.points import SECOND, MetricPoint
from autotrascale.monitor.stores.spool import BATCH, Spool
from autotrascale.monitor.stores.spooled_store import SpooledStore
from autotrascale.monitor.stores.sqlite_store import SqliteStore
from autotrascale.testing.memory_store import MemoryStore

AWAY = MetricStoreUnavailableError("memory: writing failed: no server answers")
EVERYTHING = MetricQuery("m", "v", 0, 10**9 * SECOND)


class Recorder(MemoryStore):
    """Remembers the order of arrival, and refuses values below zero as a server would: with the whole request."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: list[int] = []

    def write(self, points: Iterable[MetricPoint]) -> None:
        points = list(points)
        if any(point.fields["v"] < 0 for point in points):
            raise MetricStoreRefusedError("memory: writing failed: 400: below zero")
        super().write(points)
        self.arrived += [point.time for point in points]


def point(time: int, value: float = 1.0) -> MetricPoint:
    return MetricPoint("m", {}, {"v": value}, time)


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, "did not come about in 10 s"
        time.sleep(0.01)


@pytest.fixture
def store() -> Recorder:
    return Recorder()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool.db"


def test_points_arrive_without_a_flush(store: Recorder, path: Path) -> None:
    with SpooledStore(store, path, bound=1000) as spooled:
        spooled.write([point(1)])
        eventually(lambda: store.arrived == [1])


def test_points_written_during_an_outage_arrive_in_order(store: Recorder, path: Path) -> None:
    with SpooledStore(store, path, bound=100_000) as spooled:
        store.failure = AWAY
        for start in range(0, 3 * BATCH, BATCH // 2):
            spooled.write([point(start + i) for i in range(BATCH // 2)])
        eventually(lambda: spooled.status().problem is not None)
        assert spooled.status().waiting == 3 * BATCH
        assert spooled.status().problem == str(AWAY)
        assert not spooled.status().healthy
        with pytest.raises(MetricStoreUnavailableError, match="no server answers"):
            spooled.flush()
        store.failure = None
        spooled.flush()
        assert store.arrived == list(range(3 * BATCH))
        assert spooled.status().healthy
        assert spooled.status().waiting == 0


def test_points_arrive_by_themselves_after_an_outage(store: Recorder, path: Path) -> None:
    with SpooledStore(store, path, bound=1000, longest_pause=0.1) as spooled:
        store.failure = AWAY
        spooled.write([point(1)])
        eventually(lambda: spooled.status().problem is not None)
        store.failure = None
        eventually(lambda: store.arrived == [1] and spooled.status().healthy)


def test_a_later_process_sends_points_of_an_earlier_one(store: Recorder, path: Path) -> None:
    store.failure = AWAY
    with SpooledStore(store, path, bound=1000) as spooled:
        spooled.write([point(1)])
    store.failure = None
    with SpooledStore(store, path, bound=1000):
        eventually(lambda: store.arrived == [1])


def test_outage_and_return_are_logged_once_each(store: Recorder, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with SpooledStore(store, path, bound=1000) as spooled:
        store.failure = AWAY
        for i in range(3):
            spooled.write([point(i)])
            with pytest.raises(MetricStoreUnavailableError):
                spooled.flush()
        store.failure = None
        spooled.flush()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].endswith(f"{path}: {AWAY}")
    assert " 0 points" in lines[1]


def test_a_full_spool_drops_the_oldest_and_counts_them(
    store: Recorder, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SpooledStore(store, path, bound=10) as spooled:
        store.failure = AWAY
        for start in (0, 4, 8):
            spooled.write([point(start + i) for i in range(4)])
        assert (spooled.status().waiting, spooled.status().dropped) == (8, 4)
        assert "the 4 oldest points are dropped" in caplog.text
        store.failure = None
        spooled.flush()
        assert store.arrived == list(range(4, 12))
        assert spooled.status().dropped == 4


def test_refused_points_are_set_aside_and_do_not_hold_up_the_rest(
    store: Recorder, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SpooledStore(store, path, bound=100) as spooled:
        store.failure = AWAY
        spooled.write([point(1)])
        spooled.write([point(2, -1.0), point(3)])
        spooled.write([point(4)])
        store.failure = None
        spooled.flush()
        status = spooled.status()
        assert store.arrived == [1, 4]
        assert (status.waiting, status.refused, status.dropped) == (0, 2, 0)
    assert [record.levelno for record in caplog.records if "set aside" in record.getMessage()] == [logging.ERROR]
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT refused FROM batch").fetchone()[0].endswith("400: below zero")
    file.close()


def test_refused_points_make_room_first(path: Path) -> None:
    spool = Spool(path, "there", bound=10)
    spool.append([point(i) for i in range(4)])
    spool.append([point(i) for i in range(4, 8)])
    spool.refuse(spool.oldest()[1], "no")
    assert spool.append([point(i) for i in range(8, 12)]) == 4
    assert [p.time for batch in spool.oldest() for p in batch.points] == [0, 1, 2, 3, 8, 9, 10, 11]
    assert (spool.counts().refused, spool.counts().dropped) == (0, 4)
    spool.close()


def test_a_defect_in_the_store_does_not_end_the_sending(
    store: Recorder, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.failure = RuntimeError("a defect")
    with SpooledStore(store, path, bound=1000) as spooled:
        spooled.write([point(1)])
        eventually(lambda: "sending metric points failed" in caplog.text)
        store.failure = None
        eventually(lambda: store.arrived == [1])


def test_two_processes_may_share_a_spool(store: Recorder, path: Path) -> None:
    with SpooledStore(store, path, bound=1000) as one, SpooledStore(store, path, bound=1000) as other:
        for i in range(0, 40, 2):
            one.write([point(i)])
            other.write([point(i + 1)])
        one.flush()
        assert store.arrived == list(range(40))


def test_points_for_one_store_are_not_sent_to_another(path: Path) -> None:
    spool = Spool(path, "http://here bucket a", bound=10)
    spool.append([point(1)])
    spool.close()
    with pytest.raises(InputError, match="contains points on their way to http://here bucket a") as caught:
        Spool(path, "http://there bucket b", bound=10)
    assert "\n" not in str(caught.value)


def test_an_empty_spool_may_change_its_destination(path: Path) -> None:
    Spool(path, "here", bound=10).close()
    Spool(path, "there", bound=10).close()


def test_a_file_of_another_program_is_not_changed(path: Path) -> None:
    SqliteStore(path).close()
    before = path.read_bytes()
    with pytest.raises(InputError, match="is a database, but not a spool"):
        Spool(path, "here", bound=10)
    assert path.read_bytes() == before
    path.write_text("no database at all, but long enough to be looked at as one" * 100)
    with pytest.raises(InputError, match="cannot be opened as a spool"):
        Spool(path, "here", bound=10)


WRITER = """
import sys
from autotrascale.monitor.stores.points import MetricPoint
from autotrascale.monitor.stores.spool import Spool
spool = Spool(sys.argv[1], "this process", bound=10_000_000)
for i in range(10**9):
    spool.append([MetricPoint("m", {}, {"v": j}, 100 * i + j) for j in range(100)])
    print(i, flush=True)
"""


def test_a_killed_writer_keeps_every_confirmed_batch(path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for _ in range(20):
        writer.stdout.readline()
    writer.kill()
    said = 20 + len([line for line in writer.stdout if line.endswith("\n")])
    writer.wait()
    writer.stdout.close()
    with SpooledStore(MemoryStore(), path, bound=10_000_000) as spooled:
        spooled.flush()
        arrived = spooled.windows(EVERYTHING, "count")[0].value
    assert arrived in (100 * said, 100 * (said + 1))  # one more may have been written and not said


class Narrow(Recorder):
    """Takes requests of some points only, as a server with a limit on their bytes does."""

    def __init__(self, most: int, impossible: int | None = None) -> None:
        super().__init__()
        self.most, self.impossible = most, impossible
        self.requests = 0

    def write(self, points: Iterable[MetricPoint]) -> None:
        points = list(points)
        self.requests += 1
        if len(points) > self.most or self.impossible in [point.time for point in points]:
            raise MetricStoreTooLargeError("memory: writing failed: 413: too large")
        super().write(points)


@pytest.mark.parametrize("most", [1, 7, 64, 999])
def test_a_batch_that_is_too_large_is_split(path: Path, most: int) -> None:
    store = Narrow(most)
    with SpooledStore(store, path, bound=10_000) as spooled:
        spooled.write([point(i) for i in range(1000)])
        spooled.write([point(i) for i in range(1000, 1003)])
        spooled.flush()
        assert store.arrived == list(range(1003))
        assert spooled.status().waiting == spooled.status().refused == 0
    assert store.requests < 4 * (1003 / most + 20)


def test_a_point_that_is_too_large_by_itself_is_set_aside_alone(path: Path) -> None:
    store = Narrow(1000, impossible=333)
    with SpooledStore(store, path, bound=10_000) as spooled:
        spooled.write([point(i) for i in range(1000)])
        spooled.flush()
        assert store.arrived == [i for i in range(1000) if i != 333]
        assert (spooled.status().waiting, spooled.status().refused) == (0, 1)


@pytest.mark.parametrize(
    "body", ["", "{", "[[1,2,3]]", '[["m",{},{"v":NaN},"x"]]', "[]" * 3, "null", "\x00", "[" * 5000]
)
def test_a_damaged_batch_is_set_aside_and_the_others_arrive(
    store: Recorder, path: Path, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(path, store.status().place, 1000)
    for i in range(3):
        spool.append([point(2 * i), point(2 * i + 1)])
    spool.close()
    with sqlite3.connect(path) as damaged:
        damaged.execute("UPDATE batch SET body = ? WHERE id = 2", (body,))
    with SpooledStore(store, path, bound=1000) as spooled:
        eventually(lambda: spooled.status().waiting == 0)
        assert store.arrived == [0, 1, 4, 5]
        assert spooled.status().refused == 2
        assert spooled.status().problem is None
    (said,) = [record.getMessage() for record in caplog.records if "damaged" in record.getMessage()]
    assert said.startswith(f"{path}: batch 2 with 2 points is damaged and set aside")
    assert "\n" not in said
