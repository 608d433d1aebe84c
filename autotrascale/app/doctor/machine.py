"""The machine: writable folders, disk space, loopback network, open files, clock."""

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
from autotrascale.app.environment_variables import STORE_VARIABLES
from autotrascale.knowledge.mlflow_store import hide_secrets
from autotrascale.monitor.stores.store_settings import InfluxSettings

GIGABYTE = 10**9
LOW_DISK, FULL_DISK = 2 * GIGABYTE, GIGABYTE // 5  # for state, shuffle files and event logs of several trials
MIN_OPEN_FILES = 1024  # RocksDB keeps several files open for each partition of the state
MAX_SKEW_SECONDS = 5.0  # heartbeats decide whether a run is alive
TIMEOUT_SECONDS = 3.0


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


def work_folder(context: CheckContext) -> Finding | None:
    if context.spark is None:
        return None
    folder = _work_folder(context)
    if refusal := _check_writable(folder, "spark.work_dir"):
        return refusal
    temporary = Path(tempfile.gettempdir())  # Spark unpacks native libraries there and loads them
    if os.statvfs(temporary).f_flag & os.ST_NOEXEC:
        return warning(
            f"{temporary} is mounted noexec, and Spark loads libraries from there",
            "remount it without noexec, or set another java.io.tmpdir for the driver",
        )
    return ok(f"{folder} is writable")


def checkpoint_folder(context: CheckContext) -> Finding | None:
    spark = context.spark
    if spark is None or not spark.checkpoint_dir:
        return None
    scheme, _, path = spark.checkpoint_dir.rpartition("://")
    if scheme not in ("", "file"):
        return ok(f"{spark.checkpoint_dir} is reached by Spark: not checked")
    if refusal := _check_writable(Path(path), "spark.checkpoint_dir"):
        return refusal
    if not spark.local:
        return warning(f"{path} is writable here, but executors may not reach it", "use a folder that all hosts share")
    return ok(f"{path} is writable")


def event_log(context: CheckContext) -> Finding | None:
    """Check for files of ended runs: the event log is in the work folder, and kept or forgotten files stay there."""
    if context.spark is None:
        return None
    left = [path for path in _work_folder(context).glob("autotrascale-*") if path.is_dir() and not _in_use(path)]
    size = sum(_size(path) for path in left)
    if left and size > LOW_DISK // 2:
        return warning(
            f"{len(left)} folders of ended runs hold {size / GIGABYTE:.1f} GB in {_work_folder(context)}",
            f"remove those you do not need: {_work_folder(context)}/autotrascale-*",
        )
    kept = "kept after the run" if context.spark.keep_event_log else "removed while it is read"
    return ok(f"in {_work_folder(context)}, {kept}")


def disk(context: CheckContext) -> Finding:
    folder = _work_folder(context) if context.spark is not None else Path.cwd()
    free = shutil.disk_usage(_first_existing(folder)).free
    seen = f"{free / GIGABYTE:.1f} GB free in {folder}"
    if free < FULL_DISK:
        return problem(seen, "free disk space, or set another folder as spark.work_dir")
    return warning(seen, "free disk space for long runs") if free < LOW_DISK else ok(seen)


def open_files(context: CheckContext) -> Finding | None:
    if context.spark is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < MIN_OPEN_FILES:
        return warning(f"a process may open {soft} files", f"run ulimit -n {MIN_OPEN_FILES} or more (at most {hard})")
    return ok(f"a process may open {'any number of' if soft == resource.RLIM_INFINITY else soft} files")


def loopback(context: CheckContext) -> Finding:  # noqa: ARG001 - signature of checks
    """Check connections to 127.0.0.1, which driver, JVM and Python workers use."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS).close()
    except OSError as error:
        return problem(f"no connection from 127.0.0.1 to itself: {error}", "enable the interface lo and its ports")
    return ok("127.0.0.1 answers, and ports are free")


def clock(context: CheckContext) -> Finding:
    """Compare the clock with the installation of this program, the file system, and the servers in use."""
    now = context.clock()
    if now < Path(__file__).stat().st_mtime:
        return problem("the clock is before the installation of this program", "set the clock")
    with tempfile.NamedTemporaryFile() as file:
        off = Path(file.name).stat().st_mtime - now
    if abs(off) > MAX_SKEW_SECONDS:
        return warning(f"the file system is {off:+.0f} s from the clock", "set one of the two clocks")
    for url in _list_servers(context):
        seen = _read_server_time(url)
        if seen is not None and abs(seen - context.clock()) > MAX_SKEW_SECONDS:
            return warning(
                f"{url} is {seen - context.clock():+.0f} s from this machine's clock",
                "set one of the two clocks: heartbeats decide whether a run is alive",
            )
    return ok("the same as that of the file system and of the servers in use")


def _list_servers(context: CheckContext) -> Iterator[str]:
    candidates = [context.store, *(context.environment.get(name) for name in STORE_VARIABLES)]
    store = next((uri for uri in candidates if uri), "")
    if store.startswith(("http://", "https://")):
        yield hide_secrets(store)
    if isinstance(context.metrics, InfluxSettings):
        yield context.metrics.url


def _read_server_time(url: str) -> float | None:
    """Return the time of a server, or None if it does not answer, which another check reports."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            date = answer.headers.get("Date")
    except urllib.error.HTTPError as error:
        date = error.headers.get("Date")
    except (OSError, ValueError):
        return None
    with suppress(TypeError, ValueError):
        return parsedate_to_datetime(date).timestamp()
    return None


def _work_folder(context: CheckContext) -> Path:
    return Path((context.spark.work_dir if context.spark else "") or tempfile.gettempdir())


def _check_writable(folder: Path, setting: str) -> Finding | None:
    """Return a problem if a file cannot be synced to `folder`. Folders created for the check are removed again."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(b"autotrascale")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return problem(f"{folder} cannot be written to: {error.strerror}", f"set another folder as {setting}")
    finally:
        for each in missing:
            with suppress(OSError):
                each.rmdir()
    return None


def _first_existing(path: Path) -> Path:
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())


def _in_use(folder: Path) -> bool:
    """Return whether the command line of a process names the folder, as that of a JVM does."""
    name = os.fsencode(folder)
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if name in line.read_bytes():
                return True
    return False


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total
