"""Read the streaming job or program in a Python file without running it: an import may do anything, or need Spark.

A job is a function under `@job({...})`, with its operators and options (docs/how-to/tune.md). A program is any other
file that reads or writes a stream (docs/how-to/scale.md).
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

_STREAM_NAMES = ("readStream", "writeStream", "StreamingContext")
MAX_BYTES = 2**22


@dataclass(frozen=True)
class ScriptJob:
    """A job. `options` are the keyword-only arguments of its function; None for those without a default."""

    path: Path
    name: str
    topology: Topology
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """The name under which Spark loads the job: `module:function`."""
        return f"{self.path.stem}:{self.name}"


@dataclass(frozen=True)
class ScriptProgram:
    """A program. `queries` are the names of its queries that are literals in its code."""

    path: Path
    queries: tuple[str, ...]


def read_script(script: str) -> ScriptJob | ScriptProgram:
    """Return the job or program of a file.

    Args:
        script: `my_app.py`, or `my_jobs.py:shop` for one of several jobs.

    Raises:
        InputError: the file is not Python, has no stream, or has several jobs and none is named.
    """
    before, colon, after = script.rpartition(":")
    has_name = bool(colon) and before.endswith(".py")
    path, wanted = (Path(before), after) if has_name else (Path(script), "")
    tree = _parse(path)
    jobs = {job.name: job for job in _find_jobs(path, tree)}
    if wanted and wanted not in jobs:
        remedy = f"use one of {', '.join(jobs)}" if jobs else "leave the name out: the file has no function under @job"
        raise InputError(str(path), "has no job of this name", seen=wanted, remedy=remedy)
    if len(jobs) > 1 and not wanted:
        remedy = f"name one: --script {path}:{next(iter(jobs))}"
        raise InputError(str(path), f"has {len(jobs)} jobs: {', '.join(jobs)}", remedy=remedy)
    if jobs:
        return jobs[wanted or next(iter(jobs))]
    if not any(
        isinstance(node, ast.Attribute | ast.Name) and _last_name(node) in _STREAM_NAMES for node in ast.walk(tree)
    ):
        raise InputError(
            str(path),
            "neither reads nor writes a stream, and has no function under @job",
            remedy="name the file that builds the streaming query",
        )
    return ScriptProgram(path, tuple(dict.fromkeys(_find_query_names(tree))))


def _parse(path: Path) -> ast.Module:
    text, remedy = read_text(path, MAX_BYTES), "name a Python file"
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}", f"is not Python: {error.msg}", remedy=remedy) from None
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, or endless brackets
        raise InputError(str(path), f"is not Python: {error or 'nested too deeply'}", remedy=remedy) from None


def _find_jobs(path: Path, tree: ast.Module) -> Iterator[ScriptJob]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and _last_name(decorator.func) == "job" and decorator.args:
                    topology = _read_topology(path, node.name, decorator.args[0])
                    yield ScriptJob(path, node.name, topology, _read_options(node))


def _read_topology(path: Path, job: str, expression: ast.expr) -> Topology:
    place = f"{path}:{expression.lineno}"
    if not isinstance(expression, ast.Dict):
        raise InputError(
            place,
            f"computes the operators of {job}, which are therefore unknown",
            remedy="write them as {name: Operator(...)}, or write the job file by hand",
        )
    operators: dict[str, Operator] = {}
    for key, value in zip(expression.keys, expression.values, strict=True):
        name, place_of_operator = key.value if isinstance(key, ast.Constant) else None, f"{path}:{value.lineno}"
        if not isinstance(name, str) or not isinstance(value, ast.Call):
            raise InputError(
                place_of_operator,
                f"computes an operator of {job}, which is therefore unknown",
                remedy='write it as "name": Operator(...)',
            )
        operators[name] = _read_operator(place_of_operator, name, value)
    try:
        return Topology(operators)
    except InputError as error:
        raise error.with_prefix(f"{place}: ") from None


def _read_operator(place: str, name: str, call: ast.Call) -> Operator:
    try:
        arguments: dict[str, Any] = {
            each.name: ast.literal_eval(value) for each, value in zip(fields(Operator), call.args, strict=False)
        }
        arguments |= {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
        return Operator(**arguments)
    except InputError as error:
        raise error.with_prefix(f"{place}: {name}.") from None
    except (TypeError, ValueError) as error:
        problem = f"has an operator {name} whose arguments are not literals: {error}"
        raise InputError(place, problem, remedy="write its arguments out") from None


def _read_options(function: ast.FunctionDef) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        try:
            options[argument.arg] = None if default is None else ast.literal_eval(default)
        except ValueError:
            continue  # the default is computed
    return options


def _find_query_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last_name(node.func) == "queryName" and node.args:
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and argument.value:
                yield argument.value


def _last_name(node: ast.expr) -> str:
    """Return `job` for both `job` and `autotrascale.job`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
