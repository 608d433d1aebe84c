from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotrascale.atomic_files import FileLock, draft_path, exchange_paths, hold_lock, write_atomically


def test_a_file_is_replaced_completely(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, "old")
    write_atomically(path, "néw")
    assert path.read_text(encoding="utf-8") == "néw"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_leaves_the_old_file_only(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \udc80")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]
    with pytest.raises(OSError, match="No such file"):
        write_atomically(tmp_path / "nowhere" / "a.json", "new")


def test_two_processes_do_not_share_a_draft(tmp_path: Path) -> None:
    assert str(os.getpid()) in draft_path(tmp_path / "a.json").name


def test_a_lock_has_one_holder_and_is_released_by_its_death(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holds = (
        "import time; from pathlib import Path; from autotrascale.atomic_files import FileLock; "
        f"lock = FileLock(Path({str(path)!r})); lock.acquire(); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    mine = FileLock(path)
    assert not mine.acquire(wait=False)
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert mine.acquire()
    mine.release()
    with hold_lock(path):
        assert not mine.acquire(wait=False)
    mine.close()


def test_a_lock_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"symbolic|loop|levels"):
        FileLock(tmp_path / "lock")


def test_two_paths_of_any_kind_are_exchanged(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("a")
    (tmp_path / "link").symlink_to("link")
    exchange_paths(tmp_path / "folder", tmp_path / "link")
    assert (tmp_path / "folder").is_symlink()
    assert (tmp_path / "link" / "a").read_text() == "a"
    with pytest.raises(FileNotFoundError, match="No such file"):
        exchange_paths(tmp_path / "folder", tmp_path / "nowhere")
