"""A Kafka broker on loopback for tests and benchmarks, started by `scripts/kafka.sh`. Tests may kill it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "kafka.sh"
_START_SECONDS = 120.0


@dataclass
class Broker:
    """A broker. Its address and its data stay the same over restarts."""

    folder: Path
    port: int = field(default_factory=lambda: _find_two_ports())
    process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "broker.out").open("ab") as out:
            self.process = subprocess.Popen(
                [SCRIPT, "run", str(self.port), self.folder],
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=_environment(),
            )
        until = time.monotonic() + _START_SECONDS
        while not self._is_up():
            if self.process.poll() is not None or time.monotonic() > until:
                self.kill()
                output = (self.folder / "broker.out").read_text(errors="replace").strip().splitlines()[-5:]
                raise RuntimeError("Kafka did not start: " + " | ".join(output))
            time.sleep(0.1)

    def create(self, topic: str, partitions: int, *, or_keep: bool = False) -> None:
        """Create a topic. With `or_keep`, an existing topic is kept."""
        more = ["--if-not-exists"] if or_keep else []
        self._topics("--create", "--topic", topic, "--partitions", str(partitions), *more)

    def widen(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions of a topic."""
        self._topics("--alter", "--topic", topic, "--partitions", str(partitions))

    def send(self, topic: str, lines: Sequence[str]) -> None:
        """Send each line as a record without a key, which goes to any partition."""
        self._tool("ConsoleProducer", "--topic", topic, text="".join(f"{line}\n" for line in lines))

    def send_keyed(self, topic: str, lines: Iterable[str]) -> None:
        """Send each line, `key TAB value`, at once. Records of one key go to one partition."""
        form = ("--property", "parse.key=true", "--property", "key.separator=\t")
        with subprocess.Popen(
            self._command("ConsoleProducer", "--topic", topic, *form),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=_environment(),
        ) as producer:
            assert producer.stdin is not None
            assert producer.stdout is not None
            for line in lines:
                producer.stdin.write(f"{line}\n")
                producer.stdin.flush()
            producer.stdin.close()
            output = producer.stdout.read().strip()
        if producer.returncode:
            raise RuntimeError(f"ConsoleProducer {topic}: {output}")

    def groups(self) -> list[str]:
        """Return the consumer groups."""
        return self._tool("consumer.group.ConsumerGroupCommand", "--list").split()

    def in_order(self, topic: str, count: int) -> list[str]:
        """Return the values of the first `count` records, sorted by timestamp, partition and offset."""
        most = ("--max-messages", str(count), "--timeout-ms", "10000", "--from-beginning")
        form = [f"print.{each}=true" for each in ("timestamp", "partition", "offset")]
        output = self._tool(
            "consumer.ConsoleConsumer", "--topic", topic, *most, *(w for f in form for w in ("--property", f))
        )
        rows = [line.split("\t", 3) for line in output.splitlines()]
        return [row[3] for row in sorted(rows, key=lambda row: [int(each.split(":")[1]) for each in row[:3]])]

    def read(self, topic: str, count: int) -> list[str]:
        """Return up to `count` records from the beginning, each as `key value`."""
        most = ("--max-messages", str(count), "--timeout-ms", "10000", "--from-beginning")
        form = ("--property", "print.key=true", "--property", "key.separator= ")
        return self._tool("consumer.ConsoleConsumer", "--topic", topic, *most, *form).splitlines()

    def records(self, topic: str) -> int:
        """Return the number of records in all partitions."""
        output = self._tool("GetOffsetShell", "--topic", topic)
        return sum(int(line.rsplit(":", 1)[1]) for line in output.splitlines() if line.startswith(f"{topic}:"))

    def kill(self) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _topics(self, *arguments: str) -> None:
        self._tool("TopicCommand", *arguments)

    def _tool(self, name: str, *arguments: str, text: str = "") -> str:
        command = self._command(name, *arguments)
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=_environment(), check=False)
        if done.returncode:
            raise RuntimeError(f"{name} {' '.join(arguments)}: {done.stdout.strip()} {done.stderr.strip()}")
        return done.stdout

    def _command(self, name: str, *arguments: str) -> list[str]:
        tool = f"org.apache.kafka.tools.{name}"
        return [str(SCRIPT), "tool", tool, "--bootstrap-server", self.servers, *arguments]

    def _is_up(self) -> bool:
        with socket.socket() as caller:
            caller.settimeout(1.0)
            return caller.connect_ex(("127.0.0.1", self.port)) == 0


def connector_jars() -> str:
    """Return the connector's jars as a value of `spark.jars`."""
    done = subprocess.run([SCRIPT, "jars"], capture_output=True, text=True, env=_environment(), check=True)
    return done.stdout.strip()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHON": sys.executable}


def _find_two_ports() -> int:
    """Return the first of two neighbouring free ports: Kafka's controller listens on the second."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port
