"""The Yahoo job with Redis: exact counts, one connection per worker, and clear failures."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import oracles
import pyarrow as pa
import pytest
import redis
from bounded import Bounded, arrivals
from pyspark.errors import StreamingQueryException
from redis_server import RedisServer, started
from test_results import TINY, check_stages, last_counts

from autotrascale.domain.errors import EngineError, InputError
from examples.jobs.campaigns import Campaigns, InProcess, InRedis
from examples.jobs.redis_client import CLIENT_NAME, Redis
from examples.jobs.yahoo import Yahoo

TABLE = Campaigns(5, 2)
ADS = pa.array(["ad-000009", "ad-000000", "nobody's", "ad-000009"])
CAMPAIGNS = ["campaign-0004", "campaign-0000", None, "campaign-0004"]


@contextmanager
def watcher(url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        yield client


def ours(client: redis.Redis) -> int:
    """Return the number of open connections of the job."""
    return sum(one["name"] == CLIENT_NAME for one in client.client_list())


def close_all(client: redis.Redis) -> None:
    """Close all other connections from the side of the server."""
    client.client_kill_filter(_type="normal", skipme=True)


@pytest.mark.spark
def test_counts_in_redis_are_those_of_the_oracle(bounded: Bounded, redis_url: str) -> None:
    job = Yahoo(store_stall=TINY, campaigns=10, window_seconds=1.0, seed=5, redis=redis_url)
    k = (1, 2, 1, 3, 4, 2)
    at = arrivals(200.0, 5.0)
    expected = oracles.yahoo(zip(job.events(np.arange(len(at)))[0], at.tolist(), strict=True), job.table.table(), 1000)
    with watcher(redis_url) as client:
        ran = bounded.run(job, k, {"source": 200.0}, (2.5, 5.0))
        open_at_the_end = ours(client)
    store = job.in_redis
    assert store is not None
    assert store.views() == last_counts(ran) == expected
    check_stages(job, k, ran)
    # Four workers look up at once and two write; one more is this process's.
    assert 2 <= open_at_the_end <= 4 + 1


@pytest.mark.spark
def test_a_redis_that_goes_away_fails_the_query_with_one_sentence(bounded: Bounded, server: RedisServer) -> None:
    mortal = started(server.folder.parent / "mortal", needed=True)
    job = Yahoo(redis=mortal.url)

    def ends() -> Iterator[float]:
        yield 1.0
        mortal.stop()
        yield 2.0

    try:
        with pytest.raises(StreamingQueryException) as failed:
            bounded.run(job, (1, 1, 1, 1, 1, 1), {"source": 100.0}, ends())
    finally:
        mortal.stop()
    assert f"EngineError: Redis at {job.redis} cannot be reached" in str(failed.value)


def test_both_look_ups_give_the_same_and_null_for_an_ad_without_campaign(redis_url: str) -> None:
    in_redis = InRedis(Redis(redis_url))
    in_redis.put_table(TABLE)
    for look_up in (InProcess(TABLE), in_redis):
        assert look_up.campaigns_of(ADS).to_pylist() == CAMPAIGNS
        assert look_up.campaigns_of(ADS[:0]).to_pylist() == []


def test_a_batch_is_one_question_and_a_process_one_connection(redis_url: str) -> None:
    store = InRedis(Redis(redis_url))
    store.put_table(TABLE)
    with watcher(redis_url) as client:
        close_all(client)  # what workers of other tests hold
        before = client.info("commandstats")
        for _ in range(3):
            store.campaigns_of(ADS)
        store.put_views(["a", "b"], [0, 1000], [3, 4])
        after = client.info("commandstats")
        assert ours(client) == 1
        assert after["cmdstat_mget"]["calls"] - before.get("cmdstat_mget", {"calls": 0})["calls"] == 3
        assert 0 < client.ttl("yahoo:views:a:0") <= 3600
    assert store.views() == {("a", 0): 3, ("b", 1000): 4}


def test_a_connection_that_died_between_two_batches_is_opened_again(redis_url: str) -> None:
    store = InRedis(Redis(redis_url))
    store.put_table(TABLE)
    with watcher(redis_url) as client:
        close_all(client)
    assert store.campaigns_of(ADS).to_pylist() == CAMPAIGNS


def test_a_slow_redis_is_not_waited_for(redis_url: str) -> None:
    store = InRedis(Redis(redis_url, timeout=0.2))
    with watcher(redis_url) as client:
        client.client_pause(800, all=True)
        began = time.monotonic()
        with pytest.raises(EngineError, match=r"within 0\.2 s: .*redis_timeout"):
            store.campaigns_of(ADS)
        assert time.monotonic() - began < 0.7


def test_a_redis_that_refuses_is_quoted(redis_url: str) -> None:
    with pytest.raises(EngineError, match=r"invalid DB index|DB index is out of range"):
        InRedis(Redis(redis_url.replace("/0", "/999"))).put_table(TABLE)


def test_a_missing_redis_is_found_out_before_anything_runs_and_no_password_is_shown() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    job = Yahoo(redis=f"redis://user:opensesame@127.0.0.1:{port}/0")
    assert job.in_redis is not None
    with pytest.raises(EngineError) as failed:
        job.in_redis.put_table(job.table)
    assert str(failed.value).startswith(f"Redis at redis://127.0.0.1:{port}/0 cannot be reached (")
    assert str(failed.value).endswith("start it, or correct the option redis")
    assert "opensesame" not in str(failed.value)


@pytest.mark.parametrize("url", ["localhost:6379", "http://127.0.0.1", "redis://", "redis://h:port/0", "redis://[::1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"^redis: "):
        Yahoo(redis=url)
