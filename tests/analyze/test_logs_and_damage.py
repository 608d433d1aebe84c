from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from autotrascale.analyze import damage, logs
from autotrascale.domain.errors import InputError


def test_addresses_and_paths() -> None:
    assert logs.path_of("file:///tmp/a%20b/x.zstd") == "/tmp/a b/x.zstd"
    assert logs.path_of("s3a://bucket/a%20b") == "s3a://bucket/a%20b"


def test_a_path_that_does_not_exist_is_refused_before_any_spark(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        logs.check_paths([str(tmp_path), str(tmp_path / "nothing")])
    with pytest.raises(InputError, match="is not named"):
        logs.check_paths([])
    logs.check_paths([str(tmp_path), "hdfs://far/away"])


def test_parts_of_a_rolling_log_are_one_log_in_their_order() -> None:
    folder = "file:///logs/eventlog_v2_app-1"
    uris = [f"{folder}/events_{n}_app-1.zstd" for n in (10, 2, 1)] + ["file:///logs/app-2.zstd.inprogress"]
    files = logs.number_files(uris)
    assert [(file.part, file.log, file.log_name) for file in files] == [
        (0, 0, "app-2"),
        (1, 1, "app-1"),
        (2, 1, "app-1"),
        (10, 1, "app-1"),
    ]
    assert [str(gap) for gap in logs.missing_parts(files)] == [
        "/logs/eventlog_v2_app-1/events_10_app-1.zstd: comes after a part that is missing (part 3 to 9)"
    ]


@pytest.mark.parametrize("ending", [".jsonl", ".zstd"])
def test_the_first_bad_line_is_found_wherever_the_chunks_end(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"log{ending}"
    good = b'{"Event":"SparkListenerTaskEnd","x":"' + b"y" * 3000 + b'"}\n'
    write(path, good * 700 + b'{"Event":"Spark\n' + good)
    assert damage.first_bad_line(str(path)) == 701
    write(path, good * 3)
    assert damage.first_bad_line(str(path)) is None


def test_bad_lines_are_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"Event":"x"}\nnonsense\n[]\n')
    told = damage.bad_lines([(str(path), 2), ("s3a://far/b", 1)])
    assert [str(one) for one in told] == [
        f"{path}: 2 lines are no whole event and left out, the first is line 2",
        "s3a://far/b: 1 line is no whole event and left out",
    ]
    assert told[0].as_dict() == {"file": str(path), "problem": told[0].problem, "lines": 2, "first_line": 2}


def test_a_stream_that_ends_too_soon_is_told_from_one_that_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.zstd"
    write(path, b"".join(f'{{"Event":"{n * n}"}}\n'.encode() for n in range(200_000)))
    whole = path.read_bytes()
    assert damage.problem_of(path.as_uri()) == ""
    path.write_bytes(whole[: len(whole) // 2])
    assert "ends in mid-stream" in damage.problem_of(path.as_uri())
    path.write_bytes(whole[: len(whole) // 2] + b"\xff\x01\x02" * 5000)
    assert "is corrupt" in damage.problem_of(path.as_uri())


def write(path: Path, content: bytes) -> None:
    if path.suffix == ".zstd":
        with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as stream:
            stream.write(content)
    else:
        path.write_bytes(content)
