"""The machine itself: folders that can be written to, room on the disk, the loopback, open files, the clock."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path

from autotrascale.app.doctor.checks import Check, CheckContext, Finding, ok, problem, warning
from autotrascale.app.stores import STORE_VARIABLES
from autotrascale.knowledge.mlflow_store import hide_secrets
from autotrascale.monitor.stores.store_settings import InfluxSettings

GIGABYTE = 10**9
LITTLE, TOO_LITTLE = 2 * GIGABYTE, GIGABYTE // 5  # state, shuffles and event log of one trial after another
FILES = 1024  # RocksDB holds several open for each partition of the state
SKEW_SECONDS = 5.0  # a claim on a run is judged by heartbeats, minutes apart
PATIENCE = 3.0


def checks() -> dict[str, Check]:
    return {
        "work folder": work_folder,
        "checkpoint folder": checkpoint_folder,
        "event log": event_log,
        "disk": disk,
        "open files": open_files,
        "loopback": loopback,
        "clock": clock,
    }


def work_folder(case: CheckContext) -> Finding | None:
    """Native libraries are unpacked into the system's folder and loaded from there."""
    if case.spark is None:
        return None
    folder = _work(case)
    if refusal := _refusal(folder, "spark.work_dir"):
        return refusal
    temporary = Path(tempfile.gettempdir())
    if os.statvfs(temporary).f_flag & os.ST_NOEXEC:
        return warning(
            f"{temporary} allows no code to be loaded from it, and Spark unpacks libraries there",
            "remount it without noexec, or give the driver another java.io.tmpdir",
        )
    return ok(f"{folder} can be written to")


def checkpoint_folder(case: CheckContext) -> Finding | None:
    spark = case.spark
    if spark is None or not spark.checkpoint_dir:
        return None
    scheme, _, path = spark.checkpoint_dir.rpartition("://")
    if scheme not in ("", "file"):
        return ok(f"{spark.checkpoint_dir} is Spark's to reach: not looked at")
    if refusal := _refusal(Path(path), "spark.checkpoint_dir"):
        return refusal
    if not spark.local:
        return warning(f"{path} can be written to from here, which says nothing of the executors", "share it with them")
    return ok(f"{path} can be written to")


def event_log(case: CheckContext) -> Finding | None:
    """It is in the work folder, and read while the job runs; kept logs and the rest of what died stay there."""
    if case.spark is None:
        return None
    left = [path for path in _work(case).glob("autotrascale-*") if path.is_dir() and not _in_use(path)]
    size = sum(_size(path) for path in left)
    if left and size > LITTLE // 2:
        return warning(
            f"{len(left)} folders of runs that are over hold {size / GIGABYTE:.1f} GB in {_work(case)}",
            f"remove what you do not need: {_work(case)}/autotrascale-*",
        )
    kept = "kept after the run" if case.spark.keep_event_log else "removed as it is read"
    return ok(f"in {_work(case)}, {kept}")


def disk(case: CheckContext) -> Finding:
    folder = _work(case) if case.spark is not None else Path.cwd()
    free = shutil.disk_usage(_existing(folder)).free
    seen = f"{free / GIGABYTE:.1f} GB are free under {folder}"
    if free < TOO_LITTLE:
        return problem(seen, "free some, or name another folder as spark.work_dir")
    return warning(seen, "long runs may want more") if free < LITTLE else ok(seen)


def open_files(case: CheckContext) -> Finding | None:
    if case.spark is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        return warning(f"a process may hold {soft} files open", f"ulimit -n {FILES} or more (at most {hard})")
    return ok(f"a process may hold {'any number of' if soft == resource.RLIM_INFINITY else soft} files open")


def loopback(case: CheckContext) -> Finding:  # noqa: ARG001 - as all checks are called
    """Driver, JVM and Python workers talk to each other there."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except OSError as error:
        return problem(
            f"no connection from 127.0.0.1 to itself: {error}", "bring the interface lo up, open ports to it"
        )
    return ok("127.0.0.1 reaches itself, ports are free")


def clock(case: CheckContext) -> Finding:
    """Against the time at which this program was installed, the file system's, and that of the servers in use."""
    now = case.clock()
    if now < Path(__file__).stat().st_mtime:
        return problem("the clock is behind the day on which this program was installed", "set the clock")
    with tempfile.NamedTemporaryFile() as file:
        off = Path(file.name).stat().st_mtime - now
    if abs(off) > SKEW_SECONDS:
        return warning(f"files are stamped {off:+.0f} s from the clock", "set one of the two clocks")
    for url in _servers(case):
        seen = _server_time(url)
        if seen is not None and abs(seen - case.clock()) > SKEW_SECONDS:
            return warning(
                f"{url} is {seen - case.clock():+.0f} s from this machine's clock",
                "set one of the two clocks: whether a run lives is told by the time",
            )
    return ok("as the file system's, and that of the servers in use")


def _servers(case: CheckContext) -> Iterator[str]:
    said = [case.store, *(case.environment.get(name) for name in STORE_VARIABLES)]
    store = next((uri for uri in said if uri), "")
    if store.startswith(("http://", "https://")):
        yield hide_secrets(store)
    if isinstance(case.metrics, InfluxSettings):
        yield case.metrics.url


def _server_time(url: str) -> float | None:
    """None where nobody answers: that is another check's affair."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            said = answer.headers.get("Date")
    except urllib.error.HTTPError as error:
        said = error.headers.get("Date")
    except (OSError, ValueError):
        return None
    with suppress(TypeError, ValueError):
        return parsedate_to_datetime(said).timestamp()
    return None


def _work(case: CheckContext) -> Path:
    return Path((case.spark.work_dir if case.spark else "") or tempfile.gettempdir())


def _refusal(folder: Path, setting: str) -> Finding | None:
    """Made where there is none, as the engine would; written through to the disk, as a checkpoint is."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(b"autotrascale")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return problem(f"{folder} cannot be written to: {error.strerror}", f"name another folder as {setting}")
    finally:
        for each in missing:
            with suppress(OSError):
                each.rmdir()
    return None


def _existing(path: Path) -> Path:
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())


def _in_use(folder: Path) -> bool:
    """Whether a process names it, as the JVM of a host does."""
    wanted = os.fsencode(folder)
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if wanted in line.read_bytes():
                return True
    return False


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total
