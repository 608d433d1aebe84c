"""What of a log could not be read: counted and named, so that nothing is dropped in silence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_LOOKED_INTO = 20  # files in which the first bad line is looked for: that means reading them once more
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Damage:
    """`lines` is how many could not be used, None where it cannot be known; `first_line` counts from 1."""

    file: str
    problem: str
    lines: int | None = None
    first_line: int | None = None

    def __str__(self) -> str:
        at = f", the first is line {self.first_line}" if self.first_line else ""
        return f"{self.file}: {self.problem}{at}"

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def bad_lines(counts: Iterable[tuple[str, int]]) -> list[Damage]:
    """From (file, number of bad lines)."""
    damages: list[Damage] = []
    for file, lines in sorted(counts):
        first = first_bad_line(file) if len(damages) < _LOOKED_INTO and file.startswith("/") else None
        what = "1 line is" if lines == 1 else f"{lines} lines are"
        damages.append(Damage(file, f"{what} no whole event and left out", lines, first))
    return damages


def first_bad_line(path: str) -> int | None:
    """Counted from 1. Only called for files that are known to have one, or the time would be lost."""
    try:
        for number, line in enumerate(_lines(path), start=1):
            if line.strip() and not _whole(line):
                return number
    except (OSError, ValueError):
        pass  # the file's own end is broken, which is told separately
    return None


def broken_ends(compressed: DataFrame) -> list[Damage]:
    """Of the compressed files in column `uri`: those that end in mid-stream or turn into garbage. Spark's reader takes
    what comes before and says nothing, so each is read to its end here, where the files are: on the executors."""
    checked = compressed.select("uri").mapInArrow(_check_files, "file string, problem string")
    return [Damage(row["file"], row["problem"]) for row in checked.collect()]


def _check_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        broken = [(uri, problem) for uri in batch.column(0).to_pylist() if (problem := problem_of(uri))]
        files, problems = [_path_of(uri) for uri, _ in broken], [problem for _, problem in broken]
        yield pa.RecordBatch.from_arrays(
            [pa.array(files, pa.string()), pa.array(problems, pa.string())], ["file", "problem"]
        )


def _path_of(uri: str) -> str:
    from autotrascale.analyze.logs import path_of

    return path_of(uri)


def problem_of(uri: str) -> str:
    """Empty when all is well, or when this is a file system that only Spark can open."""
    import pyarrow.fs

    try:
        system, path = pyarrow.fs.FileSystem.from_uri(uri)
        stream: Any = system.open_input_stream(path, compression="zstd")
    except (OSError, ValueError):
        return ""
    read = 0
    try:
        with stream:
            while chunk := stream.read(_CHUNK):
                read += len(chunk)
    except OSError as error:
        what = "ends in mid-stream" if "runcated" in str(error) else "is corrupt"
        return f"{what} after about {read:,} bytes of text: what comes before is used, the rest is lost"
    return ""


def _lines(path: str) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.input_stream(path, compression="detect" if not path.endswith(".zstd") else "zstd") as stream:
        rest = b""
        while chunk := stream.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
        yield rest


def _whole(line: bytes) -> bool:
    try:
        told = json.loads(line)
    except ValueError:
        return False
    return isinstance(told, dict) and ("Event" in told or "id" in told)
