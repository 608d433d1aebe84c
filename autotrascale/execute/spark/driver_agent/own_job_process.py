"""The process of an own job's Spark driver: its channel, and how it ends.

    python -m autotrascale.execute.spark.driver_agent.own_job_process CHANNEL_FD

The process must not outlive the controller, and nothing that it started may outlive the process. The JVM, the daemon of
Python workers and the workers are in its session (as of `setsid`) and are killed together. A thread reads the channel,
which the kernel closes however the controller dies. (`PR_SET_PDEATHSIG` follows the parent's thread, not its process.)
If this process is killed, the JVM sees that its standard input closes, and ends.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from autotrascale.domain.errors import AuTraScaleError, InputError
from autotrascale.execute.spark.common.error_causes import JVM_GONE, PARENT_GONE, explain_error
from autotrascale.execute.spark.common.processes import kill_session
from autotrascale.execute.spark.driver_agent.own_job_driver import OwnJobDriver
from autotrascale.execute.spark.protocol.channel import Channel, ChannelClosedError
from autotrascale.execute.spark.protocol.own_job_messages import CODEC, Boot, Failed, Message, Shutdown

_PARENT_CHECK_SECONDS = 1.0
_ending = threading.Lock()


def serve(channel: Channel[Message]) -> None:
    """Answer requests until `Shutdown`. An error of Spark or of the job becomes a `Failed` reply."""
    parent, boot = os.getppid(), channel.receive()
    assert isinstance(boot, Boot)
    inbox: queue.Queue[Message] = queue.Queue()
    threading.Thread(target=_receive_messages, args=(channel, inbox, parent, boot.work_dir), daemon=True).start()
    threading.Thread(target=_watch_parent, args=(parent, boot.work_dir), daemon=True).start()
    try:
        driver = OwnJobDriver(boot)
        channel.send(driver.ready())
    except Exception as error:
        channel.send(_make_failure(error))
        return
    stopping = threading.Event()
    threading.Thread(target=_watch_jvm, args=(driver.spark, stopping), daemon=True).start()
    while not stopping.is_set():
        message = inbox.get()
        if isinstance(message, Shutdown):
            stopping.set()
        try:
            channel.send(driver.answer(message))
        except ChannelClosedError:
            return
        except Exception as error:
            if not stopping.is_set() and _is_jvm_gone(driver.spark, error):
                end_process(JVM_GONE)
            channel.send(_make_failure(error))


def _receive_messages(channel: Channel[Message], inbox: queue.Queue[Message], parent: int, work_dir: str) -> None:
    """Receive in a thread of its own: while the main thread is busy in Spark, the end of the parent is noticed."""
    try:
        while True:
            inbox.put(channel.receive())
    except (ChannelClosedError, InputError):
        end_process(PARENT_GONE, work_dir if _is_orphaned(parent) else "")


def _is_orphaned(parent: int) -> bool:
    time.sleep(0.2)  # the kernel closes the channel a moment before an orphan gets its new parent
    return os.getppid() != parent


def _watch_parent(parent: int, work_dir: str) -> None:
    """End the process when its parent changes. A child of the dead parent may still hold the channel open."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    end_process(PARENT_GONE, work_dir)


def _watch_jvm(spark: SparkSession, stopping: threading.Event) -> None:
    """End the process when the JVM ends: calls into a dead JVM may wait for ever."""
    gateway: Any = spark.sparkContext._gateway
    gateway.proc.wait()
    if not stopping.is_set():
        print("the JVM ended unexpectedly", file=sys.stderr, flush=True)
        end_process(JVM_GONE)


def end_process(code: int, work_dir: str = "") -> None:
    """End this process and all processes that it started, and remove the folder `work_dir` if it is not empty text.

    A second thread waits here for the first: the end of one process makes the watchers of the others wake up.
    """
    _ending.acquire()
    with contextlib.suppress(Exception):
        kill_session(os.getpid(), spare=os.getpid())
    if work_dir:
        shutil.rmtree(work_dir, ignore_errors=True)
    os._exit(code)


def _is_jvm_gone(spark: SparkSession, error: Exception) -> bool:
    """Return whether `error` comes from a dying JVM.

    A dying JVM first shows as a broken connection or a missing class; its process ends a moment later. An answer from
    Java proves that the JVM lives.
    """
    gateway: Any = spark.sparkContext._gateway
    is_answer = isinstance(error, Py4JJavaError) or not isinstance(error, Py4JError | OSError)
    until = time.monotonic() + (0.0 if is_answer else 2.0)
    while gateway.proc.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    return gateway.proc.poll() is not None


def _make_failure(error: Exception) -> Failed:
    """Print the traceback to the log and return one line for users."""
    traceback.print_exception(error)
    if isinstance(error, AuTraScaleError):
        return Failed(str(error))
    return Failed(explain_error(f"{type(error).__name__}: {error}"))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controller handles Ctrl-C
    channel = Channel(socket.socket(fileno=int(sys.argv[1])), CODEC)
    try:
        serve(channel)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        end_process(0)


if __name__ == "__main__":
    main()
