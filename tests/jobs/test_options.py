"""The jobs by their names in a job file, their options, and small parts that need no Spark."""

from __future__ import annotations

import json
import time
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Operator
from autotrascale.execute.spark.jobs.flow import job
from autotrascale.execute.spark.jobs.job_loading import load_job
from autotrascale.execute.spark.jobs.stalls import pass_through, with_stall
from examples.jobs.windows import as_interval
from examples.jobs.yahoo import Yahoo

NEXMARK = "examples.jobs.nexmark"
JOBS = ["examples.jobs.yahoo:Yahoo", *(f"{NEXMARK}:Q{number}" for number in (1, 2, 3, 5, 8, 11))]


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_loaded_by_its_name(name: str) -> None:
    job = load_job(name, {})
    assert len(job.topology) > 1
    assert name.rpartition(":")[2].lower() in job.name


def test_options_come_from_the_job_file_with_those_of_the_market_inside() -> None:
    job: Any = load_job(f"{NEXMARK}:Q5", {"count_stall": 0.001, "market": {"seed": 4}})
    assert (job.count_stall, job.market.seed, job.window_seconds) == (0.001, 4, 10.0)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        (f"{NEXMARK}:Q1", {"convert_stall": -1.0}, "convert_stall: must not be negative"),
        (f"{NEXMARK}:Q2", {"every": 0}, "every: must be at least 1"),
        (f"{NEXMARK}:Q3", {"market": {"hot_sellers": 2.0}}, "hot_sellers: must lie between 0 and 1"),
        (f"{NEXMARK}:Q5", {"every_seconds": 20.0}, "every_seconds: is longer than window_seconds"),
        (f"{NEXMARK}:Q8", {"window_seconds": 0.0}, "window_seconds: must be above zero"),
        (f"{NEXMARK}:Q11", {"gap": 3}, "gap: is not a known key"),
        ("examples.jobs.yahoo:Yahoo", {"ads_each": 0}, "ads_each: must be at least 1"),
        ("examples.jobs.yahoo:Yahoo", {"redis": "localhost"}, "redis: is not the address"),
        ("examples.jobs.yahoo:Yahoo", {"redis_timeout": 0.0}, "redis_timeout: must be above zero"),
        ("examples.jobs.yahoo:Yahoo", {"window_seconds": 0.0004}, "window_seconds: is shorter than a millisecond"),
    ],
)
def test_bad_options_are_one_clear_line(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        load_job(name, options)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def shop(
    flow: Any,
    *,
    shops: int = 20,
    factor: float = 1.0,
    name: str = "x",
    open_: bool = True,
    days: list[int] | None = None,
    kind: Literal["a", "b"] = "a",
    anything: object = None,
) -> Any:
    """Declare options like the function of a user."""


SHOP = job({"orders": Operator()})(shop)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shops": "20"}, "options: shops: input should be a valid integer (seen: '20')"),
        ({"shops": 2.5}, "options: shops: input should be a valid integer"),
        ({"shops": True}, "options: shops: input should be a valid integer"),
        ({"factor": "1"}, "options: factor: input should be a valid number"),
        ({"name": 3}, "options: name: input should be a valid string"),
        ({"open_": "yes"}, "options: open_: input should be a valid boolean"),
        ({"days": [1, "2"]}, "input should be a valid integer (seen: '2')"),
        ({"kind": "c"}, "options: kind: is not one of the allowed values (seen: 'c'); use 'a' or 'b'"),
        ({"shop": 20}, "options.shop: is not an option of the job; use one of shops, factor"),
    ],
)
def test_options_of_a_function_have_the_types_that_it_declares(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        SHOP.with_options(options, place="options")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_options_that_fit_are_handed_on_and_no_others() -> None:
    told: dict[str, Any] = {"shops": 3, "factor": 2, "days": [1], "kind": "b", "anything": {"x": [1]}, "open_": False}
    assert dict(SHOP.with_options(told, place="options").options) == told
    assert SHOP.with_options({}, place="options").options == {}


def test_an_event_is_a_function_of_its_number_and_the_seed() -> None:
    job, numbers = Yahoo(seed=9), np.array([5, 10**9, 0])
    events = job.events(numbers)[0]
    assert events == [job.events(np.array([number]))[0][0] for number in numbers]
    assert events != Yahoo(seed=8).events(numbers)[0]
    assert set(json.loads(events[0])) == {"user_id", "page_id", "ad_id", "ad_type", "event_type", "ip_address"}


def test_one_event_in_three_is_a_view_and_all_ads_are_shown() -> None:
    job = Yahoo(campaigns=10, ads_each=10)
    events = [json.loads(event) for event in job.events(np.arange(6000))[0]]
    assert sum(event["event_type"] == "view" for event in events) == pytest.approx(2000, rel=0.1)
    assert {event["ad_id"] for event in events} == set(job.table.table())


def test_a_stall_takes_its_time_for_each_record() -> None:
    batch = pa.RecordBatch.from_pydict({"x": list(range(50))})
    began = time.monotonic()
    assert list(with_stall(pass_through, 0.001)([batch, batch])) == [batch, batch]
    assert time.monotonic() - began >= 0.1


def test_intervals_are_exact_to_the_millisecond() -> None:
    assert [as_interval(seconds) for seconds in (10.0, 0.4)] == ["10000 milliseconds", "400 milliseconds"]
