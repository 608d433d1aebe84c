"""Write docs/reference/{cli,configuration,python-api,http-api}.md from the code: `python scripts/reference.py`.

The effect of a configuration key is the comment beside or above its field.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
NOTE = "<!-- Written by scripts/reference.py. Do not edit. -->\n\n"


def render_cli() -> str:
    """Return the reference of all verbs, from their declarations."""
    import click
    from typer.main import get_command

    from autotrascale.cli.main import app

    def render(command: Any, name: str) -> Iterator[str]:
        if hasattr(command, "commands"):
            for each, inner in command.commands.items():
                yield from render(inner, f"{name} {each}")
            return
        context = click.Context(command, info_name=name)
        usage = " ".join(command.collect_usage_pieces(context))
        title, text = name.removeprefix("autotrascale "), inspect.cleandoc(command.help or "")
        yield f"## {title}\n\n    {name} {usage}\n\n{text}\n"
        rows = [each.get_help_record(context) for each in command.get_params(context) if each.name != "help"]
        cells = [(a.replace("|", "\\|"), " ".join(b.replace("|", "\\|").split())) for a, b in filter(None, rows)]
        yield "| option | effect |\n|---|---|\n" + "".join(f"| `{a}` | {b} |\n" for a, b in cells)

    return f"# Command line\n\n{NOTE}" + "\n".join(render(get_command(app), "autotrascale"))


def render_configuration() -> str:
    """Return the reference of all keys of job files and program files."""
    from autotrascale.app.job_file import JobFile
    from autotrascale.app.program_file import ProgramFile

    text = f"# Configuration\n\n{NOTE}"
    for title, kind in (("Job file", JobFile), ("Program file", ProgramFile)):
        rows = "".join(
            f"| `{key}` | {kind_} | {default} | {effect} |\n" for key, kind_, default, effect in _keys(kind, "")
        )
        text += f"## {title}\n\n| key | type | default | effect |\n|---|---|---|---|\n{rows}\n"
    return text


def _keys(kind: Any, prefix: str) -> Iterator[tuple[str, str, str, str]]:
    hints, effects = get_type_hints(kind), _comments(kind)
    for each in fields(kind):
        key, hint = f"{prefix}{each.name}", hints[each.name]
        default = "required"
        if each.default is not MISSING:
            default = f"`{each.default}`" if each.default not in ("", (), None) else "none"
        elif each.default_factory is not MISSING:
            default = "see below" if is_dataclass(hint) else "empty"
        yield key, _type_name(hint), default, effects.get(each.name, "").replace("|", "\\|")
        for inner, suffix in _inner(hint):
            yield from _keys(inner, f"{key}{suffix}.")


def _inner(hint: Any) -> Iterator[tuple[Any, str]]:
    if is_dataclass(hint):
        yield hint, ""
        return
    suffix = ".NAME" if "Mapping" in str(get_origin(hint)) else "[]" if get_origin(hint) is tuple else ""
    for argument in get_args(hint):
        for inner, deeper in _inner(argument) if not isinstance(argument, str) else ():
            yield inner, suffix + deeper


def _type_name(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is typing.Literal:
        return " \\| ".join(f"`{each}`" for each in arguments)
    if origin in (typing.Union, types.UnionType):
        return " \\| ".join(_type_name(each) for each in arguments if each is not type(None))
    if is_dataclass(hint):
        return "section"
    if origin is tuple:
        return f"list of {_type_name(arguments[0])}"
    if origin is not None:
        return f"mapping to {_type_name(arguments[-1])}"
    return {"str": "text", "int": "integer", "float": "number", "bool": "true or false"}.get(
        hint.__name__, hint.__name__
    )


def _comments(kind: Any) -> dict[str, str]:
    """Return the comment beside each field, else the comment lines above it."""
    lines = textwrap.dedent(inspect.getsource(kind)).splitlines()
    found: dict[str, str] = {}
    for node in ast.parse("\n".join(lines)).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            beside = lines[(node.end_lineno or node.lineno) - 1].partition("  # ")[2]
            above: list[str] = []
            for line in reversed(lines[: node.lineno - 1]):
                if not line.strip().startswith("# "):
                    break
                above.insert(0, line.strip().removeprefix("# "))
            found[node.target.id] = beside or " ".join(above)
    return found


def render_python_api() -> str:
    """Return the reference of the public names, from signatures and docstrings."""
    import autotrascale

    text = f"# Python API\n\n{NOTE}"
    for name in sorted(autotrascale.__all__):
        each = getattr(autotrascale, name)
        if not callable(each):
            continue
        text += f"## {name}\n\n    {name}{inspect.signature(each)}\n\n{inspect.getdoc(each) or ''}\n\n"
        for method, function in inspect.getmembers(each, inspect.isfunction) if inspect.isclass(each) else ():
            if not method.startswith("_"):
                text += f"### {name}.{method}\n\n    {method}{inspect.signature(function)}\n\n"
                text += f"{inspect.getdoc(function) or ''}\n\n"
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def render_all() -> dict[str, str]:
    """Return the text of each page by file name."""
    return {"cli.md": render_cli(), "configuration.md": render_configuration(), "python-api.md": render_python_api()}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in render_all().items():
        (FOLDER / name).write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
