"""Sources that are quiet for hours, and sources that deliver each record only once."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BRISK, HERE, PATIENCE

from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob
from autotrascale.execute.spark.driver_agent.sources import is_between_batches

ONE = {"lines": 1, "first": 1}
TWO = {"lines": 1, "first": 3}


@pytest.mark.parametrize(
    ("status", "waiting"),
    [
        ({"message": "Waiting for data to arrive", "isDataAvailable": False, "isTriggerActive": False}, True),
        ({"message": "Waiting for next trigger", "isDataAvailable": True, "isTriggerActive": False}, True),
        ({"message": "Processing new data", "isDataAvailable": True, "isTriggerActive": True}, False),
        ({"message": "Getting offsets from Socket[]", "isDataAvailable": False, "isTriggerActive": True}, False),
        ({"message": "Initializing sources", "isDataAvailable": False, "isTriggerActive": False}, False),
        ({"message": "Stopped", "isDataAvailable": False, "isTriggerActive": False}, False),
    ],
)
def test_a_query_waits_while_no_batch_of_it_is_in_flight(status: dict[str, object], waiting: bool) -> None:
    assert is_between_batches(status) is waiting


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    (folder / "in").mkdir()
    (folder / "results").mkdir()
    return folder


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[LiveOwnJob]:
    settings = SparkSettings(
        job="firsts:Firsts",
        options={"folder": str(folder)},
        conf={"spark.driver.extraJavaOptions": BRISK},
        python_path=(str(HERE),),
        master="local[4]",
        patience=PATIENCE,
        work_dir=str(folder),
    )
    with LiveOwnJob(settings, {"lines": 1.0}, folder / "home") as live:
        yield live


@pytest.mark.spark
def test_an_idle_source_is_a_running_job(live: LiveOwnJob) -> None:
    """A job without any record starts, is rescaled, and is continued by another controller."""
    began = time.monotonic()
    assert live.start(ONE).running == ONE
    for wanted in (TWO, ONE):
        rescaled = live.rescale(wanted)
        assert rescaled.done, rescaled.detail
        assert rescaled.running == wanted
    assert live.observe().running == ONE
    assert time.monotonic() - began < PATIENCE.first_batch


@pytest.mark.spark
def test_a_topic_that_falls_silent_is_rescaled_with_its_state(live: LiveOwnJob, folder: Path) -> None:
    arrive(folder, "monday", "a", "b")
    wait_for(folder, live, {"a", "b"})
    live.wait(2.0)  # silence
    for number, wanted in enumerate((TWO, {"lines": 1, "first": 2}, TWO)):
        rescaled = live.rescale(wanted)
        assert rescaled.done, rescaled.detail
        assert 0 < rescaled.standstill_seconds < PATIENCE.finish_batch
        arrive(folder, f"day{number}", "a", "b", f"new{number}")
        wait_for(folder, live, {"a", "b", *(f"new{n}" for n in range(number + 1))})
    # Files that Spark writes by batch numbers: nothing twice, and their log has no gap that they would trip over.
    assert live.observe().running == TWO
    for number in range(10):
        arrive(folder, f"many{number}", f"many{number}")
        wait_for(folder, live, {f"many{number}"})
    found = read(folder)
    assert len(found) == len(set(found))


@pytest.mark.spark
def test_a_source_that_cannot_be_replayed_is_refused_before_anything_stops(tmp_path: Path, live: LiveOwnJob) -> None:
    live.close()  # one Spark at a time
    with Speaker() as speaker:
        settings = SparkSettings(
            job="firsts:Firsts",
            options={"folder": str(tmp_path), "port": speaker.port},
            conf={"spark.driver.extraJavaOptions": BRISK},
            python_path=(str(HERE),),
            master="local[4]",
            patience=PATIENCE,
            work_dir=str(tmp_path),
        )
        with LiveOwnJob(settings, {"lines": 1.0}, tmp_path / "home") as heard:
            heard.start(ONE)
            run = heard._connect().watch.run
            refused = heard.rescale(TWO)
            assert not refused.done
            assert refused.running == {"lines": 4, "first": 1}  # as it runs: a socket is spread over all slots
            assert refused.detail.startswith("job firsts: reads from socket,")
            assert "\n" not in refused.detail
            assert heard._connect().watch.run == run
            assert heard.observe().running == refused.running


def arrive(folder: Path, name: str, *lines: str) -> None:
    draft = folder / f"{name}.part"
    draft.write_text("\n".join(lines) + "\n")
    draft.rename(folder / "in" / f"{name}.txt")


def wait_for(folder: Path, live: LiveOwnJob, words: set[str]) -> None:
    until = time.monotonic() + PATIENCE.first_batch
    while not words <= set(read(folder)):
        look = live.observe()
        assert look.running is not None, look.detail
        assert time.monotonic() < until, read(folder)
        time.sleep(0.1)


def read(folder: Path) -> list[str]:
    files = (folder / "results").glob("*.json")
    return [json.loads(line)["value"] for file in files for line in file.read_text().splitlines()]


class Speaker:
    """A socket server that sends a word from time to time."""

    def __enter__(self) -> Speaker:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._over = threading.Event()
        threading.Thread(target=self._speak, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.close()

    def _speak(self) -> None:
        try:
            client, _ = self._server.accept()
            with client:
                while not self._over.wait(0.2):
                    client.sendall(b"word\n")
        except OSError:
            pass
