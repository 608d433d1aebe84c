"""Where a query's output goes: into the job's own sink, or, in a trial, into one of ours.

    discard   Spark's `noop`: every record is worked out, counted and dropped
    scratch   files as the job writes them, in a folder of the trial's own
    real      the job's own sink

A writer keeps what was set last, so naming another format is enough to leave a `foreach`, a `foreachBatch`, a topic or
a folder out: they are never called or opened. What operators do by themselves on the way, no sink can undo.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.domain.errors import InputError
from autotrascale.domain.trial import Sink

FILES = ("parquet", "orc", "json", "csv", "text", "avro")  # formats whose place is their `path`, and nothing else


def redirect_output(writer: DataStreamWriter, sink: Sink, scratch: str) -> DataStreamWriter:
    """The same writer, with its output mode, trigger and partitioning, towards this sink. `scratch`: where files go."""
    if sink == "discard":
        return writer.format("noop")
    if sink == "scratch":
        written = sink_format(writer)
        if written not in FILES:
            problem = f"scratch copies files ({', '.join(FILES)}), and this job writes to {written}"
            raise InputError("spark.sink", problem, seen=sink, remedy="use discard, or real to write to the job's own")
        return writer.option("path", scratch)
    return writer


def sink_format(writer: Any) -> str:
    """What the job itself chose."""
    return str(writer_field(writer, "source").get(writer._jwrite)).lower()


def writer_field(writer: Any, name: str) -> Any:
    """What a writer was told can be had from its fields alone: Spark keeps it to itself until the query starts."""
    field = writer._jwrite.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


@contextmanager
def forbid_starting(job: str) -> Iterator[None]:
    """Within, nobody starts a query: it would write to its own sink, under a checkpoint of its own, unseen by us."""

    def refused(*_: object, **__: object) -> None:
        raise InputError(
            f"job {job}",
            "starts a query itself",
            remedy="return the writer, and leave out start() and toTable(): the engine starts it",
        )

    kept = {name: getattr(DataStreamWriter, name) for name in ("start", "toTable")}
    try:
        for name in kept:
            setattr(DataStreamWriter, name, refused)
        yield
    finally:
        for name, method in kept.items():
            setattr(DataStreamWriter, name, method)


def check_writer(job: str, built: object) -> DataStreamWriter:
    if not isinstance(built, DataStreamWriter):
        raise InputError(
            f"job {job}",
            "builds no query",
            seen=type(built).__name__,
            remedy="return what writeStream gives, not started",
        )
    return built
