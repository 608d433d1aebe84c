from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

from autotrascale.domain.errors import InputError
from autotrascale.monitor.eventlog import log_files
from autotrascale.monitor.eventlog.damage import Damage, Report, damages
from autotrascale.monitor.eventlog.lines import Text, blocks
from autotrascale.monitor.eventlog.log_files import Piece

LINES = [f'{{"Event":"{n * n}"}}\n'.encode() for n in range(20_000)]


def read(*pieces: Piece) -> tuple[list[bytes], str]:
    found, problem = [], ""
    for piece in pieces:
        text = Text(piece)
        found += [line for block in blocks(text, piece) for line in block]
        problem = problem or text.problem
    return found, problem


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


def test_files_are_found_once_and_what_is_nobodys_is_left_alone(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("size", [1, 17, 1000, 70_000, 1 << 20])
def test_pieces_of_a_plain_file_hold_every_line_once(tmp_path: Path, size: int) -> None:
    path = tmp_path / "app"
    kept = LINES[:200] if size < 1000 else LINES
    path.write_bytes(b"".join(kept))
    found, _ = log_files.find_files([str(path)])
    assert read(*log_files.pieces(found, size)) == (kept, "")


@pytest.mark.parametrize("name", ["app.zstd", "app.zst", "app.gz", "app.zstd.inprogress", "events_1_app.zstd.compact"])
def test_compressed_files_are_read_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    whole = b"".join(LINES)
    half = len(whole) // 2
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(whole))
    else:  # Spark may write a frame after the other
        path.write_bytes(zstandard.compress(whole[:half]) + zstandard.compress(whole[half:]))
    found, _ = log_files.find_files([str(path)])
    assert read(*log_files.pieces(found, 1000)) == (LINES, "")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_all_that_comes_before_a_streams_broken_end_is_read(tmp_path: Path, share: float) -> None:
    path = tmp_path / "app.zstd"
    whole = compressed(LINES)
    path.write_bytes(whole[: int(len(whole) * share)])
    found, problem = read(Piece(0, 0, str(path)))
    with path.open("rb") as file:
        known = zstandard.ZstdDecompressor().decompressobj().decompress(file.read()) if share else b""
    assert found == known.splitlines(keepends=True)[: known.count(b"\n")]
    assert ("ends in mid-stream" in problem) == (share > 0)


def test_garbage_and_a_file_that_is_gone_are_told(tmp_path: Path) -> None:
    path = tmp_path / "app.zstd"
    whole = compressed(LINES)
    path.write_bytes(whole[: len(whole) // 2] + b"\xff\x01\x02" * 5000)
    found, problem = read(Piece(0, 0, str(path)))
    assert found == LINES[: len(found)]
    assert "is corrupt" in problem
    assert "cannot be opened" in read(Piece(0, 0, str(tmp_path / "gone")))[1]


def test_bad_lines_are_counted_over_the_pieces_of_a_file() -> None:
    reports = [
        Report(1, 0, lines=7, problem="is corrupt"),
        Report(0, 500, lines=20, bad=2, first_bad=3),
        Report(0, 0, lines=100),
        Report(0, 900, lines=20, bad=1, first_bad=1),
    ]
    assert damages(reports, {0: "/a", 1: "/b"}) == [
        Damage("/a", "3 lines are no whole event and left out", lines=3, first_line=103),
        Damage("/b", "is corrupt"),
    ]
    (one,) = damages([Report(0, 0, 5, 1, 5)], {0: "/a"})
    assert str(one) == "/a: 1 line is no whole event and left out, the first is line 5"
    assert one.as_dict() == {"file": "/a", "problem": one.problem, "lines": 1, "first_line": 5}


def compressed(lines: list[bytes]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(b"".join(lines))
    return bytes(sink.getvalue())
