"""A real Kafka on loopback for tests and benches, from `scripts/kafka.sh`: killed and started again at will."""

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
_UP_WITHIN = 120.0


@dataclass
class Broker:
    """Its address and its data stay the same from one start to the next."""

    folder: Path
    port: int = field(default_factory=lambda: _two_free_ports())
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
        until = time.monotonic() + _UP_WITHIN
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                self.kill()
                said = (self.folder / "broker.out").read_text(errors="replace").strip().splitlines()[-5:]
                raise RuntimeError("no Kafka to test with: " + " | ".join(said))
            time.sleep(0.1)

    def create(self, topic: str, partitions: int, *, or_keep: bool = False) -> None:
        """`or_keep`: one that is there stays as it is."""
        more = ["--if-not-exists"] if or_keep else []
        self._topics("--create", "--topic", topic, "--partitions", str(partitions), *more)

    def widen(self, topic: str, partitions: int) -> None:
        self._topics("--alter", "--topic", topic, "--partitions", str(partitions))

    def send(self, topic: str, lines: Sequence[str]) -> None:
        """Each line is a record, without a key: it goes to any partition."""
        self._tool("ConsoleProducer", "--topic", topic, text="".join(f"{line}\n" for line in lines))

    def send_keyed(self, topic: str, lines: Iterable[str]) -> None:
        """`key TAB value` each, sent as they come; a key's records share a partition."""
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
            said = producer.stdout.read().strip()
        if producer.returncode:
            raise RuntimeError(f"ConsoleProducer {topic}: {said}")

    def groups(self) -> list[str]:
        """Of consumers."""
        return self._tool("consumer.group.ConsumerGroupCommand", "--list").split()

    def in_order(self, topic: str, count: int) -> list[str]:
        """The values of so many records from the beginning, by their timestamps; of one moment, by partition and
        offset."""
        most = ("--max-messages", str(count), "--timeout-ms", "10000", "--from-beginning")
        form = [f"print.{each}=true" for each in ("timestamp", "partition", "offset")]
        said = self._tool(
            "consumer.ConsoleConsumer", "--topic", topic, *most, *(w for f in form for w in ("--property", f))
        )
        rows = [line.split("\t", 3) for line in said.splitlines()]
        return [row[3] for row in sorted(rows, key=lambda row: [int(each.split(":")[1]) for each in row[:3]])]

    def read(self, topic: str, count: int) -> list[str]:
        """So many records from the beginning, `key value` each; fewer where there are no more of them."""
        most = ("--max-messages", str(count), "--timeout-ms", "10000", "--from-beginning")
        form = ("--property", "print.key=true", "--property", "key.separator= ")
        return self._tool("consumer.ConsoleConsumer", "--topic", topic, *most, *form).splitlines()

    def records(self, topic: str) -> int:
        """In all partitions together."""
        said = self._tool("GetOffsetShell", "--topic", topic)
        return sum(int(line.rsplit(":", 1)[1]) for line in said.splitlines() if line.startswith(f"{topic}:"))

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

    def _answers(self) -> bool:
        with socket.socket() as caller:
            caller.settimeout(1.0)
            return caller.connect_ex(("127.0.0.1", self.port)) == 0


def connector_jars() -> str:
    """For `spark.jars`."""
    done = subprocess.run([SCRIPT, "jars"], capture_output=True, text=True, env=_environment(), check=True)
    return done.stdout.strip()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHON": sys.executable}


def _two_free_ports() -> int:
    """The first of two neighbours: the controller has the second."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port
