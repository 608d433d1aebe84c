"""The laws on points, and that what keeps them comes back from a store as it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from influxd import Influxd

from autotrascale.domain.errors import InputError
from autotrascale.monitor.stores.metric_store import MetricQuery, MetricStore
from autotrascale.monitor.stores.points import END_OF_TIME, LONGEST_TAG, MetricPoint, to_datetime
from autotrascale.monitor.stores.spool import Spool
from autotrascale.monitor.stores.sqlite_store import SqliteStore

names = st.from_regex(r"[a-z][a-z0-9_.-]{0,10}", fullmatch=True).filter(lambda name: name not in {"result", "table"})
texts = st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable() and "\\" not in text)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63)


numbering = count()


@st.composite
def points(draw: st.DrawFn) -> MetricPoint:
    keys = draw(st.lists(names.filter(lambda name: name != "time"), min_size=1, max_size=5, unique=True))
    split = draw(st.integers(0, len(keys) - 1))
    return MetricPoint(
        draw(names.filter(lambda name: name != "time")),
        {key: draw(texts) for key in keys[:split]},
        {key: draw(numbers) for key in keys[split:]},
        draw(st.integers(0, END_OF_TIME - 2)),
    )


def kept(store: MetricStore, point: MetricPoint) -> bool:
    """Each under a measurement of its own: points of one measurement would answer for each other."""
    point = replace(point, measurement=f"m{next(numbering)}")
    store.write([point])
    store.flush()
    for field, value in point.fields.items():
        query = MetricQuery(point.measurement, field, point.time, point.time + 1, point.tags, tuple(point.tags))
        (sample,) = store.last(query)
        assert (sample.group, sample.time, sample.value) == (point.tags, point.time, value)
    return True


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetricStore]:
    with SqliteStore(tmp_path_factory.mktemp("points") / "metrics.db") as store:
        yield store


@pytest.fixture(scope="module")
def influxdb(influxd: Influxd) -> Iterator[MetricStore]:
    with influxd.store(influxd.bucket()) as store:
        yield store


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spool]:
    spool = Spool(tmp_path_factory.mktemp("points") / "spool.db", "there", bound=1000)
    yield spool
    spool.close()


@settings(deadline=None)
@given(point=points())
def test_sqlite_returns_the_written_points(sqlite: MetricStore, point: MetricPoint) -> None:
    assert kept(sqlite, point)


@settings(deadline=None, max_examples=40)
@given(point=points())
def test_influxdb_returns_the_written_points(influxdb: MetricStore, point: MetricPoint) -> None:
    assert kept(influxdb, point)


@settings(deadline=None)
@given(given=st.lists(points(), min_size=1, max_size=5))
def test_a_spool_returns_the_appended_points(spool: Spool, given: list[MetricPoint]) -> None:
    spool.append(given)
    (batch,) = spool.oldest()
    assert list(batch.points) == given
    spool.delivered([batch])


def make(**changed: object) -> MetricPoint:
    parts: dict[str, object] = {"measurement": "m", "tags": {"job": "a"}, "fields": {"v": 1}, "time": 5}
    return MetricPoint(**(parts | changed))  # type: ignore[arg-type]


def test_tags_are_sorted_and_numbers_become_floats() -> None:
    point = make(tags={"b": "1", "a": "2"}, fields={"v": 1, "w": np.float32(0.5)})
    assert list(point.tags) == ["a", "b"]
    assert [type(value) for value in point.fields.values()] == [float, float]


@pytest.mark.parametrize(
    "name", ["", "1a", "a b", "a,b", "#a", "_a", "a\\", "é", "time", "result", "table", "a" * 65, 3]
)
def test_names_that_not_every_store_keeps_are_refused(name: str) -> None:
    changes: dict[str, object] = {"measurement": name, "tags": {name: "x"}, "fields": {name: 1.0}}
    for place, changed in changes.items():
        with pytest.raises(InputError, match=f"^{place}: is not a valid name"):
            make(**{place: changed})


@pytest.mark.parametrize("text", ["", "a\nb", "a\tb", "a\\b", "\ud800", "\x00", "x" * (LONGEST_TAG + 1), None, 3])
def test_texts_that_not_every_store_keeps_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^tags\.job: is not a valid tag") as caught:
        make(tags={"job": text})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, True, "1", 10**400])
def test_values_that_are_not_finite_numbers_are_refused(value: float) -> None:
    with pytest.raises(InputError, match=r"^fields\.v: must be"):
        make(fields={"v": value})


@pytest.mark.parametrize("time", [-1, 1.5, True, None, END_OF_TIME])
def test_times_out_of_range_are_refused(time: int) -> None:
    with pytest.raises(InputError, match=r"^time: "):
        make(time=time)


def test_a_point_needs_a_number_and_one_name_for_one_thing() -> None:
    with pytest.raises(InputError, match="fields: is empty"):
        make(fields={})
    with pytest.raises(InputError, match=r"fields\.job: is also the name of a tag"):
        make(fields={"job": 1.0})


def test_bad_queries_are_refused() -> None:
    with pytest.raises(InputError, match="stop: is not after start 5"):
        MetricQuery("m", "v", 5, 5)
    with pytest.raises(InputError, match="by: names a tag twice"):
        MetricQuery("m", "v", 5, 6, by=("job", "job"))
    with pytest.raises(InputError, match="field: is not a valid name"):
        MetricQuery("m", "v v", 5, 6)


@given(st.datetimes(datetime(1970, 1, 1), datetime(2199, 1, 1), timezones=st.just(UTC)), st.integers(0, 999))
def test_a_time_in_nanoseconds_becomes_a_datetime_to_the_microsecond(moment: datetime, nanoseconds: int) -> None:
    since = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert to_datetime(1000 * since + nanoseconds) == moment


def test_paths_may_be_text(tmp_path: Path) -> None:
    SqliteStore(str(tmp_path / "metrics.db")).close()
