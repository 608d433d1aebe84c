"""What a Python file says of the streaming job or program in it. It is read, and never run: importing it might do
anything, and need a Spark.

A job is a function under `@job({...})`, with its operators and its options (docs/own-job.md). A program is anything
else that reads or writes a stream, kept as it is (docs/adopting.md).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Operator, Topology
from autotrascale.validation import read_text

_STREAMS = ("readStream", "writeStream", "StreamingContext")
_MOST_BYTES = 2**22  # of a program that somebody wrote


@dataclass(frozen=True)
class ScriptJob:
    """`name` is the function's; `options` are its keyword-only arguments with what they are when nobody sets them."""

    path: Path
    name: str
    topology: Topology
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        return f"{self.path.stem}:{self.name}"


@dataclass(frozen=True)
class ScriptProgram:
    """`queries` are the names that it gives its queries, as far as they stand there in full."""

    path: Path
    queries: tuple[str, ...]


def read_script(said: str) -> ScriptJob | ScriptProgram:
    """`my_app.py`, or `my_jobs.py:shop` for one of several jobs."""
    name, colon, wanted = said.rpartition(":")
    path = Path(name if colon and name.endswith(".py") else said)
    wanted = wanted if path == Path(name) and colon else ""
    tree = _parsed(path)
    jobs = {job.name: job for job in _jobs(path, tree)}
    if wanted and wanted not in jobs:
        there = f"use one of {', '.join(jobs)}" if jobs else "it has no function under @job: leave the name out"
        raise InputError(str(path), "has no job of this name", seen=wanted, remedy=there)
    if len(jobs) > 1 and not wanted:
        raise InputError(
            str(path),
            f"holds {len(jobs)} jobs: {', '.join(jobs)}",
            remedy=f"name one: --script {path}:{next(iter(jobs))}",
        )
    if jobs:
        return jobs[wanted or next(iter(jobs))]
    if not any(isinstance(node, ast.Attribute | ast.Name) and _last(node) in _STREAMS for node in ast.walk(tree)):
        raise InputError(
            str(path),
            "neither reads nor writes a stream, and has no function under @job",
            remedy="name the file that builds the streaming query",
        )
    return ScriptProgram(path, tuple(dict.fromkeys(_query_names(tree))))


def _parsed(path: Path) -> ast.Module:
    text = read_text(path, _MOST_BYTES)
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}", f"is no Python: {error.msg}", remedy="name a Python file") from None
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, brackets without end
        raise InputError(
            str(path), f"is no Python: {error or 'nested too deeply'}", remedy="name a Python file"
        ) from None


def _jobs(path: Path, tree: ast.Module) -> Iterator[ScriptJob]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and _last(mark.func) == "job" and mark.args:
                    yield ScriptJob(path, node.name, _topology(path, node.name, mark.args[0]), _options(node))


def _topology(path: Path, job: str, said: ast.expr) -> Topology:
    place = f"{path}:{said.lineno}"
    if not isinstance(said, ast.Dict):
        raise InputError(
            place,
            f"the operators of {job} are made while it runs, and cannot be read off",
            remedy="write them as {name: Operator(...)}, or write the job file by hand",
        )
    operators: dict[str, Operator] = {}
    for key, value in zip(said.keys, said.values, strict=True):
        name = key.value if isinstance(key, ast.Constant) else None
        if not isinstance(name, str) or not isinstance(value, ast.Call):
            raise InputError(
                f"{path}:{value.lineno}",
                f"an operator of {job} cannot be read off",
                remedy='write it as "name": Operator(...)',
            )
        operators[name] = _operator(f"{path}:{value.lineno}", name, value)
    try:
        return Topology(operators)
    except InputError as error:
        raise error.under(f"{place}: ") from None


def _operator(place: str, name: str, said: ast.Call) -> Operator:
    try:
        given: dict[str, Any] = {
            each.name: ast.literal_eval(value) for each, value in zip(fields(Operator), said.args, strict=False)
        }
        given |= {each.arg: ast.literal_eval(each.value) for each in said.keywords if each.arg}
        return Operator(**given)
    except InputError as error:
        raise error.under(f"{place}: {name}.") from None
    except (TypeError, ValueError) as error:
        raise InputError(
            place, f"the operator {name} cannot be read off: {error}", remedy="write its arguments out"
        ) from None


def _options(function: ast.FunctionDef) -> dict[str, Any]:
    """Those whose value stands there in full; None for those without one, which must be set."""
    found: dict[str, Any] = {}
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        try:
            found[argument.arg] = None if default is None else ast.literal_eval(default)
        except ValueError:
            continue  # worked out while it is imported: the job's own affair
    return found


def _query_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last(node.func) == "queryName" and node.args:
            said = node.args[0]
            if isinstance(said, ast.Constant) and isinstance(said.value, str) and said.value:
                yield said.value


def _last(node: ast.expr) -> str:
    """`job` of `job` and of `autotrascale.job`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
