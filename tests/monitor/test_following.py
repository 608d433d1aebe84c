from __future__ import annotations

from pathlib import Path

from autotrascale.monitor.eventlog import events
from autotrascale.monitor.eventlog.follower import Follower


def job(number: int) -> bytes:
    return b'{"Event":"SparkListenerJobStart","Job ID":%d,"Stage Infos":[]}\n' % number


def numbers(follower: Follower) -> list[int]:
    return list(follower.read(lambda event: [event.job] if isinstance(event, events.JobStart) else []))


def test_a_log_is_followed_while_it_grows_and_from_file_to_file(tmp_path: Path) -> None:
    parts = tmp_path / "eventlog_v2_app"
    parts.mkdir()
    follower = Follower(tmp_path, "app", consume=True)
    assert numbers(follower) == []
    with (parts / "events_1_app").open("wb") as file:
        file.write(job(0) + job(1)[:20])
        file.flush()
        assert numbers(follower) == [0]
        file.write(job(1)[20:])
    assert numbers(follower) == [1]
    (parts / "events_2_app").write_bytes(job(2))
    assert numbers(follower) == [2]
    assert not (parts / "events_1_app").exists()
    assert follower.damaged == 0


def test_lines_that_are_no_whole_event_are_counted_and_skipped(tmp_path: Path) -> None:
    parts = tmp_path / "eventlog_v2_app"
    parts.mkdir()
    deep = b'{"Event":"SparkListenerTaskEnd",' + b'"x":[' * 100_000 + b"\n"
    unread = b'{"Event":"SparkListenerMoonRise"}\n'
    (parts / "events_7_app").write_bytes(b"\xff\n" + job(1) + job(2)[:30] + b"\n" + unread + deep + b"\n" + job(3))
    follower = Follower(tmp_path, "app", consume=False, latest=True)
    assert numbers(follower) == [1, 3]
    assert follower.damaged == 3
    assert numbers(follower) == []
    assert (parts / "events_7_app").exists()
