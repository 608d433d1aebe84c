"""The embedded store with crashes, other processes, other versions and damaged files."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from autotrascale.domain.errors import InputError, MetricStoreError
from autotrascale.monitor.stores.metric_store import MetricQuery
from autotrascale.monitor.stores.points import SECOND, MetricPoint
from autotrascale.monitor.stores.sqlite_file import VERSION
from autotrascale.monitor.stores.sqlite_store import SqliteStore

BATCH = 2000
EVERYTHING = MetricQuery("m", "v", 0, 10**9 * SECOND)

WRITER = f"""
import sys
from autotrascale.monitor.stores.points import MetricPoint
from autotrascale.monitor.stores.sqlite_store import SqliteStore
store = SqliteStore(sys.argv[1])
for i in range(10**9):
    store.write(MetricPoint("m", {{"job": str(j % 7)}}, {{"v": 1}}, {BATCH} * i + j) for j in range({BATCH}))
    print(i, flush=True)
"""

READER = """
import sys, time
from autotrascale.monitor.stores.metric_store import MetricQuery
from autotrascale.monitor.stores.sqlite_store import SqliteStore
store, query = SqliteStore(sys.argv[1]), MetricQuery("m", "v", 0, 10**18)
print("ready", flush=True)
while (counts := [s.value for s in store.windows(query, "count")]) != [float(sys.argv[2])]:
    assert not counts or counts[0] % 100 == 0, counts  # a batch is seen whole or not at all
    time.sleep(0.005)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.db"


def point(time: int, value: float = 1.0) -> MetricPoint:
    return MetricPoint("m", {}, {"v": value}, time)


def count(path: Path) -> float:
    with SqliteStore(path) as store:
        store.check()
        return store.windows(EVERYTHING, "count")[0].value


@pytest.mark.parametrize("batches", [1, 4, 9])
def test_a_kill_during_a_write_loses_no_batch_and_splits_none(path: Path, batches: int) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(batches):
            writer.stdout.readline()
        writer.kill()
        said = batches + len([line for line in writer.stdout if line.endswith("\n")])
    assert count(path) in (BATCH * said, BATCH * (said + 1))  # one more may have been written and not said


def test_processes_read_while_one_writes(path: Path) -> None:
    with SqliteStore(path) as store:
        command = [sys.executable, "-c", READER, str(path), "5000"]
        readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
        for i in range(50):
            store.write([point(100 * i + j) for j in range(100)])
        for reader in readers:
            reader.communicate(timeout=20)
            assert reader.returncode == 0


def test_many_processes_may_open_an_empty_file_at_once(path: Path) -> None:
    def visit(i: int) -> None:
        with SqliteStore(path) as store:
            store.write([point(i)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(visit, range(16)))
    assert count(path) == 16


def test_points_outlast_the_process_that_wrote_them(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([point(1)])
    assert count(path) == 1


def test_a_failed_write_leaves_nothing_and_can_be_repeated(path: Path) -> None:
    def broken() -> object:
        yield point(1)
        raise ZeroDivisionError

    with SqliteStore(path) as store:
        with pytest.raises(ZeroDivisionError):
            store.write(broken())  # type: ignore[arg-type]
        assert store.last(EVERYTHING) == []
        store.write([point(2)])
        assert [sample.time for sample in store.last(EVERYTHING)] == [2]


def test_old_points_are_deleted(path: Path) -> None:
    now = [1000 * SECOND]
    with SqliteStore(path, keep=100 * SECOND, clock=lambda: now[0]) as store:
        store.write([point(second * SECOND) for second in (899, 900, 1000)])
        assert store.windows(EVERYTHING, "count")[0].value == 2
        now[0] = 1050 * SECOND
        store.write([point(1050 * SECOND)])
        assert store.windows(EVERYTHING, "count")[0].value == 2


def test_a_newer_file_is_refused_by_its_version(path: Path) -> None:
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(InputError, match=f"reads version {VERSION} ") as caught:
        SqliteStore(path)
    assert (caught.value.place, caught.value.seen) == (str(path), VERSION + 1)


def test_a_database_of_another_program_is_not_changed(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE runs (id)")
    before = path.read_bytes()
    with pytest.raises(InputError, match="is a database, but not a metric store"):
        SqliteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database at all\n" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_reported_in_one_line(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(InputError, match="is damaged or not a metric store") as caught:
        SqliteStore(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_inner_damage_is_found_and_reported(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write([point(i) for i in range(5000)])
    content = bytearray(path.read_bytes())
    content[4096 * 4 :] = b"\xff" * (len(content) - 4096 * 4)
    path.write_bytes(content)
    with SqliteStore(path) as store:
        with pytest.raises(MetricStoreError, match=f"{path}: reading failed: ") as caught:
            store.check()
        assert "\n" not in str(caught.value)
        assert store.status().problem == str(caught.value)
        with pytest.raises(MetricStoreError):
            store.windows(EVERYTHING, "sum")


def test_an_impossible_folder_is_reported_in_one_line(path: Path) -> None:
    path.write_text("a file")
    for impossible in (path / "metrics.db", path.parent):
        with pytest.raises(InputError, match="cannot be opened as a metric store") as caught:
            SqliteStore(impossible)
        assert "\n" not in str(caught.value)


def test_a_closed_store_says_so(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    with pytest.raises(MetricStoreError, match="closed"):
        store.write([point(1)])
