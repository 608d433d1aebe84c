"""Write the generated pages of docs/reference from the code: `python scripts/reference.py`.

The effect of a configuration key is the comment beside or above its field, else the field's line in the docstring of
its class. The effect of a section is the first sentence of its class if the field says nothing.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tempfile
import textwrap
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from http import HTTPStatus
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
        inside = list(_inner(hint))
        effect = effects.get(each.name) or (_first_sentence(inside[0][0]) if inside else "")
        yield key, _type_name(hint), default, _sentence(effect)
        for inner, suffix in inside:
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


def _sentence(text: str) -> str:
    """Return the text with a capital, unless it begins with a value and a colon, and with a period."""
    if not re.match(r"[a-z-]+:|[^a-z]", text):
        text = text[:1].upper() + text[1:]
    return (text if not text or text.endswith((".", "…")) else f"{text}.").replace("|", "\\|")


def _first_sentence(kind: Any) -> str:
    return re.split(r"(?<=\.)\s", inspect.getdoc(kind) or "")[0]


def _docstring_fields(kind: Any) -> dict[str, str]:
    """Return the text of each field under "Args:" or "Attributes:", without its default."""
    _, _, section = re.split(
        r"^(Args|Attributes):\n", f"{inspect.getdoc(kind)}\nArgs:\n", maxsplit=1, flags=re.MULTILINE
    )
    entries = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", section, re.MULTILINE)
    return {name: re.sub(r", default [^,;]+\.$", ".", " ".join(text.split())) for name, text in entries}


def _comments(kind: Any) -> dict[str, str]:
    """Return the comment beside each field, else the comment lines above it, else its line in the docstring."""
    lines = textwrap.dedent(inspect.getsource(kind)).splitlines()
    found = _docstring_fields(kind)
    for node in ast.parse("\n".join(lines)).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            beside = lines[(node.end_lineno or node.lineno) - 1].partition("  # ")[2]
            above: list[str] = []
            for line in reversed(lines[: node.lineno - 1]):
                if not line.strip().startswith("# "):
                    break
                above.insert(0, line.strip().removeprefix("# "))
            if beside or above:
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
        if not each.__module__.startswith("autotrascale."):
            text += f"## {name}\n\n`{name}` is an alias of `{each.__module__}.{each.__qualname__}`.\n\n"
            continue
        text += f"## {name}\n\n    {name}{inspect.signature(each)}\n\n{inspect.getdoc(each) or ''}\n\n"
        for method, function in inspect.getmembers(each, inspect.isfunction) if inspect.isclass(each) else ():
            if not method.startswith("_"):
                text += f"### {name}.{method}\n\n    {method}{inspect.signature(function)}\n\n"
                text += f"{inspect.getdoc(function) or ''}\n\n"
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def render_http_api() -> str:
    """Return the reference of all routes, from the OpenAPI document."""
    from autotrascale.web.app import create_app

    with tempfile.TemporaryDirectory() as folder:
        document = create_app(_server_state(Path(folder))).openapi()
    routes = [
        (method.upper(), path, route) for path, item in document["paths"].items() for method, route in item.items()
    ]
    counts = Counter((code, each["description"]) for *_, r in routes for code, each in r["responses"].items())
    common = {pair for pair, count in counts.items() if pair[0] >= "400" and count >= len(routes) - 1}  # but /healthz
    text = f"# HTTP API\n\n{NOTE}[Use the HTTP API](../how-to/http-api.md) shows examples and guarantees.\n\n"
    text += _table("method | path | effect", [(m, f"`{path}`", route["summary"]) for m, path, route in routes])
    text += "\n`GET /openapi.json` returns all of this for programs.\n\n## Errors of every route\n\n"
    text += _table("code | meaning", sorted(common))
    for method, path, route in routes:
        text += f"\n## {method} {path}\n\n{_render_route(document, route, common)}"
    return text


def _render_route(document: Any, route: Any, common: set[tuple[str, str]]) -> str:
    text = " ".join([f"{route['summary']}.", *route.get("description", "").split()]) + "\n\n"
    if parameters := route.get("parameters"):
        rows = [_field(document, each["name"], each["in"], each["schema"], each) for each in parameters]
        text += _table("parameter | in | type | default | effect", rows) + "\n"
    if body := route.get("requestBody"):
        schema = _resolve(document, body["content"]["application/json"]["schema"])
        required = schema.get("required", ())
        rows = [
            _field(document, name, None, each, {"required": name in required})
            for name, each in schema["properties"].items()
        ]
        text += _table("field of the body | type | default | effect", rows) + "\n"
    codes = {(code, each["description"]) for code, each in route["responses"].items()} - common
    names = [
        (code, HTTPStatus(int(code)).phrase if meaning == "Successful Response" else meaning)
        for code, meaning in sorted(codes)
    ]
    return text + _table("code | meaning", names)


def _server_state(folder: Path) -> Any:
    from autotrascale.knowledge.mlflow_store import MlflowStore
    from autotrascale.web.api.job_catalog import JobCatalog
    from autotrascale.web.api.server_state import ServerState

    return ServerState.of(MlflowStore(f"sqlite:///{folder / 'mlflow.db'}"), JobCatalog(folder), "reference")


def _table(head: str, rows: Iterable[Iterable[str]]) -> str:
    line = "|---" * (head.count("|") + 1) + "|\n"
    return f"| {head} |\n{line}" + "".join(f"| {' | '.join(each.strip() for each in row)} |\n" for row in rows)


def _resolve(document: Any, schema: Any) -> Any:
    """Return the schema without a reference and without null."""
    for each in schema.get("anyOf", ()):
        if each.get("type") != "null":
            return _resolve(document, each)
    reference = schema.get("$ref")
    return document["components"]["schemas"][reference.rpartition("/")[2]] if reference else schema


def _field(document: Any, name: str, place: str | None, schema: Any, given: Any) -> list[str]:
    default = "required" if given.get("required") else f"`{schema['default']}`" if "default" in schema else "none"
    descriptions = (each.get("description") for each in (given, schema, *schema.get("anyOf", ())))
    effect = next(filter(None, descriptions), "").replace("|", "\\|")
    return [f"`{name}`", *filter(None, [place]), _json_type(_resolve(document, schema)), default, effect]


def _json_type(schema: Any) -> str:
    if "enum" in schema:
        return " \\| ".join(f"`{each}`" for each in schema["enum"])
    if schema["type"] == "array":
        return f"list of {_json_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"mapping to {_json_type(schema['additionalProperties'])}"
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = "" if low is None else f", {low:,.15g} to {high:,.15g}" if high is not None else f", at least {low:,.15g}"
    return {"string": "text", "boolean": "true or false"}.get(schema["type"], schema["type"]) + bounds


def render_metrics() -> str:
    """Return the reference of the metrics that the server exports."""
    import prometheus_client

    from autotrascale.web.api.health import collect_gauges
    from autotrascale.web.api.prometheus import PREFIX

    with tempfile.TemporaryDirectory() as folder:
        state = _server_state(Path(folder))
        rows = [(f"{PREFIX}_{name}", "gauge", labels, text) for name, text, labels, _ in collect_gauges(state)]
        for each in vars(state.metrics).values():
            if isinstance(each, prometheus_client.Counter | prometheus_client.Histogram):
                (family,) = each.describe()
                name = family.name + ("_total" if isinstance(each, prometheus_client.Counter) else "")
                rows.append((name, family.type, each._labelnames, family.documentation))
    cells = [
        (f"`{name}`", kind, ", ".join(f"`{each}`" for each in labels) or "none", text)
        for name, kind, labels, text in rows
    ]
    return (
        f"# Metrics\n\n{NOTE}`GET /metrics` exports these metrics. [Monitor control loops](../how-to/monitor.md) shows "
        "the setup.\nAn unknown value is not exported.\n\n" + _table("metric | type | labels | meaning", cells)
    )


def render_reason_codes() -> str:
    """Return the reference of the codes of reasons."""
    from autotrascale.plan.reason_codes import FAILED_CHECKS, REASON_CODES

    def rows(table: Mapping[str, str]) -> list[tuple[str, str]]:
        return [(f"`{code}`", meaning) for code, meaning in sorted(table.items())]

    return (
        f"# Reason codes\n\n{NOTE}Every decision has reasons with `code`, `text` and numbers. Several reasons "
        f"may explain one decision.\n\n{_table('code | meaning', rows(REASON_CODES))}\n## Failed checks\n\n"
        "The value `why` of `hold-unbelievable` is one of these names. Nothing is learned from such an observation.\n\n"
        + _table("why | meaning", rows(FAILED_CHECKS))
    )


RENDERERS: Mapping[str, Callable[[], str]] = {
    "cli.md": render_cli,
    "configuration.md": render_configuration,
    "http-api.md": render_http_api,
    "metrics.md": render_metrics,
    "python-api.md": render_python_api,
    "reason-codes.md": render_reason_codes,
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, render in RENDERERS.items():
        (FOLDER / name).write_text(render().rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
