"""The sink of a query: the job's own sink, or another one during a trial.

    discard   Spark's `noop`: every record is computed, counted and dropped
    scratch   files in the job's format, in a folder of the trial
    real      the job's own sink

The last call on a writer wins. Setting another format replaces a `foreach`, a `foreachBatch`, a topic or a folder,
which is then never called or opened. Side effects of operators cannot be redirected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.domain.errors import InputError
from autotrascale.domain.trial import Sink

FILES = ("parquet", "orc", "json", "csv", "text", "avro")  # formats with `path` as their only target


def redirect_output(writer: DataStreamWriter, sink: Sink, scratch: str) -> DataStreamWriter:
    """Return `writer` with the sink of a trial. Output mode, trigger and partitioning stay.

    Args:
        writer: a writer that is not started.
        sink: the kind of sink.
        scratch: folder for the files of a `scratch` sink.

    Raises:
        InputError: a `scratch` sink is wanted for a job that does not write files.
    """
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
    """Return the format that the job chose, in lower case."""
    return str(writer_field(writer, "source").get(writer._jwrite)).lower()


def writer_field(writer: Any, name: str) -> Any:
    """Return a private Java field of `writer`: Spark offers no other access before the query starts."""
    field = writer._jwrite.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


@contextmanager
def forbid_starting(job: str) -> Iterator[None]:
    """Make `start` and `toTable` raise in the block: a job that starts its query itself would bypass AuTraScale."""

    def refuse(*_: object, **__: object) -> None:
        raise InputError(
            f"job {job}",
            "starts a query itself",
            remedy="return the writer without start() and toTable(): AuTraScale starts it",
        )

    originals = {name: getattr(DataStreamWriter, name) for name in ("start", "toTable")}
    try:
        for name in originals:
            setattr(DataStreamWriter, name, refuse)
        yield
    finally:
        for name, method in originals.items():
            setattr(DataStreamWriter, name, method)


def check_writer(job: str, built: object) -> DataStreamWriter:
    """Return `built`, the result of the job's `build`. Raise `InputError` if it is not a writer."""
    if not isinstance(built, DataStreamWriter):
        raise InputError(
            f"job {job}",
            "does not build a query",
            seen=type(built).__name__,
            remedy="return the result of writeStream, not started",
        )
    return built
