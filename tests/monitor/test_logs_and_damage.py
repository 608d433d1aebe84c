from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

from autotrascale.domain.errors import InputError
from autotrascale.monitor.eventlog import log_files
from autotrascale.monitor.eventlog.archived_log import ArchivedLog
from autotrascale.monitor.eventlog.events import ApplicationStart
from autotrascale.monitor.eventlog.lines import LogText, blocks

LINES = [f'{{"Event":"{n * n}"}}\n'.encode() for n in range(20_000)]


def read(path: Path) -> tuple[list[bytes], str]:
    text = LogText(str(path))
    return [line for block in blocks(text) for line in block], text.problem


def test_a_path_that_does_not_exist_is_refused_before_any_spark(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        log_files.check_paths([str(tmp_path), str(tmp_path / "nothing")])
    with pytest.raises(InputError, match="is not named"):
        log_files.check_paths([])
    with pytest.raises(InputError, match="does not exist"):
        log_files.find_files([(tmp_path / "nothing").as_uri()])
    with pytest.raises(InputError, match="cannot be read"):
        log_files.find_files(["ftp://far/away"])
    log_files.check_paths([str(tmp_path), "hdfs://far/away"])


def test_files_are_found_once_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / "eventlog_v2_app"
    folder.mkdir(parents=True)
    for name in ("events_1_app", "appstatus_app", ".events_1_app.crc", "_SUCCESS"):
        (folder / name).write_text("x")
    (tmp_path / "old.lz4.inprogress").write_text("x")
    found, unread = log_files.find_files([str(tmp_path), tmp_path.as_uri(), str(folder / "events_1_app")])
    assert [(file.uri, file.size) for file in found] == [(str(folder / "events_1_app"), 1)]
    assert "compressed with lz4, which only Spark itself can read" in str(unread[0])


def test_parts_of_a_rolling_log_are_one_log_in_their_order() -> None:
    folder = "s3://logs/eventlog_v2_app-1"
    uris = [f"{folder}/events_{n}_app-1.zstd" for n in (10, 2, 1)] + ["s3://logs/app-2.zstd.inprogress"]
    found = log_files.number_files(dict.fromkeys(uris, 0))
    assert [(file.part, file.log, file.log_name) for file in found] == [
        (0, 0, "app-2"),
        (1, 1, "app-1"),
        (2, 1, "app-1"),
        (10, 1, "app-1"),
    ]
    assert [str(gap) for gap in log_files.find_missing_parts(found)] == [
        f"{folder}/events_10_app-1.zstd: comes after a part that is missing (part 3 to 9)"
    ]


@pytest.mark.parametrize("name", ["app.zstd", "app.zst", "app.gz", "app.zstd.inprogress", "events_1_app.zstd.compact"])
def test_compressed_files_are_read_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    whole = b"".join(LINES)
    half = len(whole) // 2
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(whole))
    else:  # Spark may write a frame after the other
        path.write_bytes(zstandard.compress(whole[:half]) + zstandard.compress(whole[half:]))
    assert read(path) == (LINES, "")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_all_that_comes_before_a_streams_broken_end_is_read(tmp_path: Path, share: float) -> None:
    path = tmp_path / "app.zstd"
    whole = compressed(LINES)
    path.write_bytes(whole[: int(len(whole) * share)])
    found, problem = read(path)
    with path.open("rb") as file:
        known = zstandard.ZstdDecompressor().decompressobj().decompress(file.read()) if share else b""
    assert found == known.splitlines(keepends=True)[: known.count(b"\n")]
    assert ("ends in mid-stream" in problem) == (share > 0)


def test_garbage_and_a_missing_file_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "app.zstd"
    whole = compressed(LINES)
    path.write_bytes(whole[: len(whole) // 2] + b"\xff\x01\x02" * 5000)
    found, problem = read(path)
    assert found == LINES[: len(found)]
    assert "is corrupt" in problem
    assert "cannot be opened" in read(tmp_path / "gone")[1]


def test_bad_lines_are_counted_in_each_file_of_a_log(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app"
    folder.mkdir()
    whole = [b'{"Event":"SparkListenerApplicationStart","App Name":"shop"}\n'] * 3
    (folder / "events_1_app").write_bytes(b"".join([*whole, b"hello\n", *whole, b'{"Event":"SparkListenerJobStart"\n']))
    (folder / "events_2_app.zstd").write_bytes(compressed([b"hello\n", *LINES])[:-1000])
    (log,), _ = log_files.find_logs([str(tmp_path)])
    archived = ArchivedLog(log)

    def take(event: object) -> list[str]:
        assert isinstance(event, ApplicationStart)
        return [event.name]

    assert list(archived.read(take)) == ["shop"] * 6
    first, broken, second = archived.damages
    assert (Path(first.file).name, first.lines, first.first_line) == ("events_1_app", 2, 4)
    assert "ends in mid-stream" in broken.problem
    assert (Path(second.file).name, second.lines, second.first_line) == ("events_2_app.zstd", 1, 1)
    assert str(second).endswith("; the first is line 1")


def test_an_event_that_makes_no_sense_is_a_bad_line(tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(b'{"Event":"SparkListenerApplicationStart","App Name":"shop"}\n' * 2)
    (log,), _ = log_files.find_logs([str(tmp_path)])
    archived = ArchivedLog(log)

    def refuse(_: object) -> list[str]:
        raise ValueError("no sense")

    assert list(archived.read(refuse)) == []
    assert [damage.lines for damage in archived.damages] == [2]


def compressed(lines: list[bytes]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(b"".join(lines))
    return bytes(sink.getvalue())
