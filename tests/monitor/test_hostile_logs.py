"""Reading any event log takes bounded memory, ends, and reports the lines that were left out.

The benchmark reads larger ones of the same zoo: benchmarks/faults/attack_bench.py.
"""

from __future__ import annotations

import gzip
import os
import socket
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.monitor.eventlog import lines, local_files, log_files
from autotrascale.monitor.eventlog.follower import Follower
from autotrascale.monitor.eventlog.lines import OVERLONG, LogText, blocks
from autotrascale.monitor.eventlog.log_files import find_files
from tests.monitor import hostile_logs

MOST_MB = 1024


def test_an_archive_of_hostile_logs_is_read_in_bounded_memory(tmp_path: Path) -> None:
    for name, make in hostile_logs.ZOO.items():
        hostile_logs.write_compressed(make(1), tmp_path / f"{name}.zstd")
    found = hostile_logs.measured("archive", tmp_path)
    assert found["most_resident_mb"] < MOST_MB  # type: ignore[operator]
    assert any("1 line without" in each for each in found["said"])  # type: ignore[attr-defined]


def test_a_hostile_log_that_grows_is_followed_in_bounded_memory(tmp_path: Path) -> None:
    for name, make in hostile_logs.ZOO.items():
        hostile_logs.write_plain(make(1), tmp_path / name)
    found = hostile_logs.measured("live", tmp_path)
    assert found["most_resident_mb"] < MOST_MB  # type: ignore[operator]
    assert found["damaged"].keys() == hostile_logs.ZOO.keys()  # type: ignore[attr-defined]


def test_twelve_kilobytes_that_say_eight_hundred_megabytes(tmp_path: Path) -> None:
    bomb = zstandard.ZstdCompressor().compressobj(size=800 << 20)
    with (tmp_path / "app.zstd").open("wb") as file:
        for _ in range(800):
            file.write(bomb.compress(b"x" * (1 << 20)))
        file.write(bomb.flush())
    assert (tmp_path / "app.zstd").stat().st_size < 100_000
    found = hostile_logs.measured("archive", tmp_path)
    assert found["most_resident_mb"] < MOST_MB // 2  # type: ignore[operator]
    said = " ".join(found["said"])  # type: ignore[call-overload]
    assert "inflates to more than 268,435,456 bytes" in said
    assert "longer than any event" in said


def test_one_line_of_gigabytes_is_skipped_block_by_block(tmp_path: Path) -> None:
    """A file with a hole in it, which takes no room on the disk."""
    good = b'{"Event":"Nothing"}\n'
    with (tmp_path / "app").open("wb") as file:
        file.write(good)
        file.truncate(2 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + good)
    found = hostile_logs.measured("archive", tmp_path)
    assert found["most_resident_mb"] < MOST_MB // 2  # type: ignore[operator]
    assert found["damaged"] == 2, "too long, and no event either"
    assert any("1 line longer than any event" in said for said in found["said"])  # type: ignore[attr-defined]


TEXTS = st.lists(st.sampled_from([b"a" * 3, b"b" * 20, b"c" * 49, b"d" * 51, b"e" * 400, b""]), max_size=30)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.booleans(), st.sampled_from(["app", "app.gz"]))
def test_each_line_is_read_once_and_long_lines_are_left_out(
    tmp_path_factory: pytest.TempPathFactory, text: list[bytes], ends: bool, name: str
) -> None:
    path = tmp_path_factory.mktemp("logs") / name
    content = b"\n".join(text) + (b"\n" if ends else b"")
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    wanted = [line if len(line) <= 50 else OVERLONG for line in content.splitlines(keepends=True)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lines, "MOST_LINE", 50)
        patched.setattr(lines, "_BLOCK", 64)
        read = LogText(str(path))
        found = [line for block in blocks(read) for line in block]
    assert found == wanted
    assert read.overlong == wanted.count(OVERLONG)


def test_links_in_a_circle_are_followed_once_and_named(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (logs / "a" / "b").mkdir(parents=True)
    (logs / "a" / "app-1").write_text("x")
    (logs / "a" / "b" / "up").symlink_to(logs)
    (logs / "a" / "same").symlink_to(logs / "a" / "app-1")
    os.link(logs / "a" / "app-1", logs / "zzz")
    (logs / "nowhere").symlink_to(tmp_path / "gone")
    (logs / "itself").symlink_to(logs / "itself")
    found, unread = find_files([str(logs), str(logs / "a")])
    assert [file.uri for file in found] == [str(logs / "zzz")]
    said = "\n".join(map(str, unread))
    assert f"{logs}/a/b/up: leads to {logs}, which is read already: not followed" in said
    assert f"{logs}/a/app-1: is the same file as {logs}/zzz: read once" in said
    assert f"{logs}/nowhere: cannot be read: No such file or directory" in said
    assert f"{logs}/itself: cannot be read: Too many levels of symbolic links" in said


def test_folders_as_deep_as_they_go(tmp_path: Path) -> None:
    made = [str(tmp_path)]
    for _ in range(1200):
        try:
            os.mkdir(f"{made[-1]}/d")
        except OSError:
            break
        made += [f"{made[-1]}/d"]
    (tmp_path / "app").write_text("x")
    try:
        assert [file.uri for file in find_files([str(tmp_path)])[0]] == [str(tmp_path / "app")]
    finally:  # what cleans up after tests goes down by recursion, and would not come so far
        for folder in reversed(made[1:]):
            os.rmdir(folder)


def test_pipes_devices_and_sockets_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "app").write_text("x")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        found, unread = find_files([str(tmp_path)])
    assert [file.uri for file in found] == [str(tmp_path / "app")]
    assert {str(each).removeprefix(f"{tmp_path}/") for each in unread} == {
        "pipe: is a pipe and no file: not read",
        "zero: is a device and no file: not read",
        "s: is a socket and no file: not read",
    }
    for path in ("/dev/zero", str(tmp_path / "pipe"), str(tmp_path / "zero")):
        with pytest.raises(InputError, match=r": is a (pipe|device) and no file; give an event log's file"):
            find_files([path])


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MOST_FILES", 3)
    for i in range(4):
        (tmp_path / str(i)).write_text("x")
    with pytest.raises(InputError, match="holds more than 3 files"):
        find_files([str(tmp_path)])


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is made up."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "app").write_text("x")
    listed = os.listdir

    def refuse(path: str) -> list[str]:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(local_files.os, "listdir", refuse)
    found, (closed,) = find_files([str(tmp_path)])
    assert [file.uri for file in found] == [str(tmp_path / "app")]
    assert str(closed) == f"{tmp_path}/closed: cannot be read: Permission denied"


def test_a_growing_log_that_is_a_pipe_is_refused_and_does_not_wait(tmp_path: Path) -> None:
    (tmp_path / "eventlog_v2_app").mkdir()
    os.mkfifo(tmp_path / "eventlog_v2_app" / "events_1_app")
    with pytest.raises(InputError, match="is a pipe and no file"):
        list(Follower(tmp_path, "app", consume=False).lines())


def test_a_line_of_a_growing_log_that_is_too_long_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotrascale.monitor.eventlog.follower.MOST_LINE", 50)
    (tmp_path / "eventlog_v2_app").mkdir()
    follower = Follower(tmp_path, "app", consume=False)
    with (tmp_path / "eventlog_v2_app" / "events_1_app").open("wb") as file:

        def after(text: bytes) -> list[bytes]:
            file.write(text)
            file.flush()
            return list(follower.lines())

        assert after(b"a\n" + b"b" * 40) == [b"a\n"]
        assert after(b"b" * 5) == []
        assert after(b"\nc\n") == [b"b" * 45 + b"\n", b"c\n"]
        assert after(b"d" * 120) == []
        assert after(b"d" * 60) == []
        assert after(b"d\ne\n") == [b"e\n"]
        assert follower.damaged == 1
