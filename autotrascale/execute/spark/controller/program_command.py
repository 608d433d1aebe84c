"""Parse the command line of a PySpark program, and put AuTraScale's driver script into it. Pure.

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

# Options of spark-submit.
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
    """The command line of a program, split into its parts.

    `launcher`: Python or spark-submit as the user calls it; empty for the Python that runs AuTraScale. `script`: a
    file, or the name of a module if `module` is set.
    """

    kind: Literal["python", "spark-submit"]
    launcher: str
    options: tuple[str, ...]
    script: str
    arguments: tuple[str, ...]
    module: bool = False

    @property
    def name(self) -> str:
        """Name of the program's file or module."""
        return derive_program_name(self._program)

    @property
    def _program(self) -> tuple[str, ...]:
        return ("-m", self.script) if self.module else (self.script,)

    def with_driver(self, python: str) -> tuple[str, ...]:
        """Return the command that runs the program inside our driver script. The program sees the same arguments."""
        options = self.options
        if self.kind == "spark-submit" and not self._has_name():
            options = (*options, "--name", PurePath(self.script).name)  # Spark would use the name of our script
        return (self.launcher or python, *options, str(DRIVER), *self._program, *self.arguments)

    def _has_name(self) -> bool:
        pairs, _ = _read_options(self.options)
        return any(name == "--name" or _split_setting(name, value)[0] == "spark.app.name" for name, value in pairs)


def derive_program_name(words: Sequence[str]) -> str:
    """Return the name of a program from the words behind our driver script: a file, or -m and a module."""
    return words[1].rpartition(".")[2] if words[0] == "-m" else PurePath(words[0]).stem


def parse_command(words: Sequence[str]) -> ProgramCommand:
    """Parse the words of a command line.

    Raises `InputError` for a command that starts no Python program, or whose driver would run on another machine.
    """
    if not words:
        raise InputError(_PLACE, "is missing", remedy="write it after --, as in: -- my_app.py ARGUMENTS")
    first = PurePath(words[0]).name
    if first == "spark-submit":
        return _parse_spark_submit(words[0], words[1:])
    if _PYTHON.fullmatch(first):
        return _parse_python(words[0], words[1:])
    if first in _OTHER_SHELLS:
        raise InputError(_PLACE, "is a shell, not a program", seen=words[0], remedy="name a Python file")
    return ProgramCommand("python", "", (), _check_script(words[0]), tuple(words[1:]))


def _parse_python(python: str, words: Sequence[str]) -> ProgramCommand:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at].startswith("-m"):
            module, *rest = [word for word in (words[at][2:],) if word] + list(words[at + 1 :]) or [""]
            return ProgramCommand("python", python, tuple(words[:at]), _check_module(module), tuple(rest), module=True)
        if words[at][:2] == "-c" or words[at] == "-":
            remedy = "write the program to a file, and name the file"
            raise InputError(_PLACE, "is not in a file", seen=words[at], remedy=remedy)
        at += 2 if words[at] in _PYTHON_WITH_VALUE else 1
    if at >= len(words):
        raise InputError(_PLACE, "is missing", seen=" ".join([python, *words]), remedy="name a Python file")
    return ProgramCommand("python", python, tuple(words[:at]), _check_script(words[at]), tuple(words[at + 1 :]))


def _parse_spark_submit(launcher: str, words: Sequence[str]) -> ProgramCommand:
    pairs, at = _read_options(words)
    for name, value in pairs:
        _check_option(name, value)
    if at >= len(words):
        raise InputError(_PLACE, "is missing", seen=" ".join([launcher, *words]), remedy="name a Python file")
    return ProgramCommand("spark-submit", launcher, tuple(words[:at]), _check_script(words[at]), tuple(words[at + 1 :]))


def _read_options(words: Sequence[str]) -> tuple[list[tuple[str, str]], int]:
    """Return (name, value) of the leading options of spark-submit, and the number of words that they take."""
    at, pairs = 0, list[tuple[str, str]]()
    while at < len(words) and words[at].startswith("-"):
        width, name, value = _read_option(words[at:])
        pairs.append((name, value))
        at += width
    return pairs, at


def _read_option(words: Sequence[str]) -> tuple[int, str, str]:
    """Return the number of words that the first option takes, its name and its value."""
    match = _OPTION.fullmatch(words[0])
    name = match.group(1) if match else words[0]
    if name in _NO_PROGRAM:
        raise InputError(_PLACE, "is not started by this option", seen=words[0], remedy="remove the option")
    if name in _SWITCHES:
        return 1, name, ""
    if name not in _WITH_VALUE:
        raise InputError(_PLACE, "has an option that spark-submit does not know", seen=words[0], remedy="correct it")
    if match:
        return 1, name, match.group(2)
    if len(words) < 2:
        raise InputError(_PLACE, "has an option without a value", seen=words[0], remedy="add the value")
    return 2, name, words[1]


def _check_option(name: str, value: str) -> None:
    setting, text = _split_setting(name, value)
    if text == "cluster" and (name == "--deploy-mode" or setting == "spark.submit.deployMode"):
        problem = "runs its driver on the cluster, where AuTraScale cannot reach it"
        raise InputError(_PLACE, problem, seen=f"{name} {value}", remedy="use deploy mode client")
    if name == "--remote" or (setting in ("spark.remote", "spark.api.mode") and text != "classic"):
        problem = "uses Spark Connect, whose driver runs on the server"
        raise InputError(_PLACE, problem, seen=f"{name} {value}", remedy="name the cluster with --master")
    if name == "--class":
        problem, remedy = "is a Java or Scala class", "name a Python program: AuTraScale supports no other language"
        raise InputError(_PLACE, problem, seen=value, remedy=remedy)


def _split_setting(name: str, value: str) -> tuple[str, str]:
    """Split `--conf name=value`. Other options are returned as they are."""
    if name not in ("--conf", "-c"):
        return name, value
    setting, _, text = value.partition("=")
    return setting.strip(), text.strip()


def _check_module(name: str) -> str:
    if not _MODULE.fullmatch(name):
        raise InputError(_PLACE, "is not a module name", seen=name, remedy="write -m package.module")
    return name


def _check_script(word: str) -> str:
    """Return the path of a Python file on this machine."""
    scheme, colon, rest = word.partition(":")
    if colon and scheme in ("file", "local"):
        return _check_script(re.sub(r"^/+", "/", rest))
    if colon and re.fullmatch(r"[a-z][a-z0-9+.-]+", scheme):
        raise InputError(_PLACE, "is not on this machine", seen=word, remedy="copy it here, and name the copy")
    suffix = PurePath(word).suffix.lower()
    if suffix in (".jar", ".r"):
        language, remedy = "Java or Scala" if suffix == ".jar" else "R", "name a Python program"
        raise InputError(_PLACE, f"is written in {language}", seen=word, remedy=remedy)
    if suffix != ".py":
        raise InputError(_PLACE, "is not a Python file", seen=word, remedy="name a file that ends in .py")
    return word
