"""What stands on a command line that starts a PySpark program, and the same line with our driver in between. Pure.

my_app.py arguments…
python3 -u my_app.py arguments…
python3 -m my_package.my_app arguments…
spark-submit --master … --conf … my_app.py arguments…
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from autotrascale.domain.errors import InputError

DRIVER = Path(__file__).parents[1] / "driver_agent" / "driver.py"
_PLACE = "program"
_PYTHON = re.compile(r"(python|pypy)(\d+(\.\d+)*)?")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_PYTHON_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
_OTHER_SHELLS = ("pyspark", "spark-shell", "spark-sql", "sparkR", "spark-class")

# As spark-submit has them. Everything else that begins with a dash takes a value, or is none of its options.
_SWITCHES = ("--verbose", "-v", "--supervise")
_NO_PROGRAM = ("--help", "-h", "--version", "--usage-error", "--kill", "--status")
_WITH_VALUE = (
    *("--archives", "--conf", "-c", "--deploy-mode", "--driver-class-path", "--driver-cores"),
    *("--driver-default-class-path", "--driver-java-options", "--driver-library-path", "--driver-memory"),
    *("--exclude-packages", "--executor-cores", "--executor-memory", "--extra-properties-file", "--files", "--jars"),
    *("--keytab", "--load-spark-defaults", "--master", "--name", "--num-executors", "--packages", "--principal"),
    *("--properties-file", "--proxy-user", "--py-files", "--queue", "--repositories", "--total-executor-cores"),
    *("--class", "--remote"),
)
_OPTION = re.compile(r"(--[^=]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class ProgramCommand:
    """`launcher` is a Python or a spark-submit, as the user calls it; empty: whichever Python is ours. `script` is a
    file, or the name of a module."""

    kind: Literal["python", "spark-submit"]
    launcher: str
    options: tuple[str, ...]
    script: str
    arguments: tuple[str, ...]
    module: bool = False

    @property
    def name(self) -> str:
        return derive_program_name(self._program)

    @property
    def _program(self) -> tuple[str, ...]:
        return ("-m", self.script) if self.module else (self.script,)

    def adopted(self, python: str) -> tuple[str, ...]:
        """The words to run instead. The program sees the same arguments."""
        options = self.options
        if self.kind == "spark-submit" and not self._is_named():
            options = (*options, "--name", PurePath(self.script).name)  # Spark would take the name of our driver
        return (self.launcher or python, *options, str(DRIVER), *self._program, *self.arguments)

    def _is_named(self) -> bool:
        return any(name == "--name" or _setting(name, value)[0] == "spark.app.name" for name, value in _pairs(self))


def derive_program_name(words: Sequence[str]) -> str:
    """Of what stands behind our driver: a file, or -m and a module."""
    return words[1].rpartition(".")[2] if words[0] == "-m" else PurePath(words[0]).stem


def parse_command(words: Sequence[str]) -> ProgramCommand:
    """Raises `InputError` for what is no Python program, or whose driver would be somewhere else."""
    if not words:
        raise InputError(_PLACE, "is missing", remedy="name it behind --: -- my_app.py arguments…")
    first = PurePath(words[0]).name
    if first == "spark-submit":
        return _submitted(words[0], words[1:])
    if _PYTHON.fullmatch(first):
        return _interpreted(words[0], words[1:])
    if first in _OTHER_SHELLS:
        raise InputError(_PLACE, "is a shell, not a program", seen=words[0], remedy="name a Python file")
    return ProgramCommand("python", "", (), _script(words[0]), tuple(words[1:]))


def _interpreted(python: str, words: Sequence[str]) -> ProgramCommand:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at].startswith("-m"):
            module, *rest = [word for word in (words[at][2:],) if word] + list(words[at + 1 :]) or [""]
            return ProgramCommand("python", python, tuple(words[:at]), _module(module), tuple(rest), module=True)
        if words[at][:2] == "-c" or words[at] == "-":
            remedy = "name the program's file instead"
            raise InputError(_PLACE, "is not started from a file", seen=words[at], remedy=remedy)
        at += 2 if words[at] in _PYTHON_WITH_VALUE else 1
    if at >= len(words):
        raise InputError(_PLACE, "is missing", seen=" ".join([python, *words]), remedy="name a Python file")
    return ProgramCommand("python", python, tuple(words[:at]), _script(words[at]), tuple(words[at + 1 :]))


def _submitted(launcher: str, words: Sequence[str]) -> ProgramCommand:
    at, pairs = 0, list[tuple[str, str]]()
    while at < len(words) and words[at].startswith("-"):
        width, name, value = _option(words[at:])
        _check_option(name, value)
        pairs.append((name, value))
        at += width
    if at >= len(words):
        raise InputError(_PLACE, "is missing", seen=" ".join([launcher, *words]), remedy="name a Python file")
    return ProgramCommand("spark-submit", launcher, tuple(words[:at]), _script(words[at]), tuple(words[at + 1 :]))


def _option(words: Sequence[str]) -> tuple[int, str, str]:
    """How many words the first option takes, its name and its value."""
    match = _OPTION.fullmatch(words[0])
    name = match.group(1) if match else words[0]
    if name in _NO_PROGRAM:
        raise InputError(_PLACE, "is not started by this", seen=words[0], remedy="leave it out")
    if name in _SWITCHES:
        return 1, name, ""
    if name not in _WITH_VALUE:
        raise InputError(_PLACE, "has an option that spark-submit does not know", seen=words[0], remedy="correct it")
    if match:
        return 1, name, match.group(2)
    if len(words) < 2:
        raise InputError(_PLACE, "has an option without its value", seen=words[0], remedy="give it one")
    return 2, name, words[1]


def _check_option(name: str, value: str) -> None:
    setting, said = _setting(name, value)
    if said == "cluster" and (name == "--deploy-mode" or setting == "spark.submit.deployMode"):
        problem = "has its driver on the cluster, where nobody here can reach it"
        raise InputError(_PLACE, problem, seen=f"{name} {value}", remedy="leave it out: the driver then runs here")
    if name == "--remote" or (setting in ("spark.remote", "spark.api.mode") and said != "classic"):
        problem = "goes through Spark Connect, whose driver is elsewhere"
        raise InputError(_PLACE, problem, seen=f"{name} {value}", remedy="name the cluster with --master")
    if name == "--class":
        raise InputError(_PLACE, "is a class of Java's or Scala's", seen=value, remedy="only Python can be adopted")


def _setting(name: str, value: str) -> tuple[str, str]:
    """Of `--conf name=value`; other options stand for themselves."""
    if name not in ("--conf", "-c"):
        return name, value
    setting, _, said = value.partition("=")
    return setting.strip(), said.strip()


def _pairs(command: ProgramCommand) -> list[tuple[str, str]]:
    at, pairs = 0, list[tuple[str, str]]()
    while at < len(command.options):
        width, name, value = _option(command.options[at:])
        pairs.append((name, value))
        at += width
    return pairs


def _module(name: str) -> str:
    if not _MODULE.fullmatch(name):
        raise InputError(_PLACE, "is no module", seen=name, remedy="write -m package.module")
    return name


def _script(word: str) -> str:
    """A file of this machine, as Python wants it named."""
    scheme, colon, rest = word.partition(":")
    if colon and scheme in ("file", "local"):
        return _script(re.sub(r"^/+", "/", rest))
    if colon and re.fullmatch(r"[a-z][a-z0-9+.-]+", scheme):
        raise InputError(_PLACE, "is not on this machine", seen=word, remedy="fetch it, and name the file")
    suffix = PurePath(word).suffix.lower()
    if suffix in (".jar", ".r"):
        language = "Java or Scala" if suffix == ".jar" else "R"
        raise InputError(_PLACE, f"is written in {language}", seen=word, remedy="only Python can be adopted")
    if suffix != ".py":
        raise InputError(_PLACE, "is no Python file", seen=word, remedy="name one that ends in .py")
    return word
