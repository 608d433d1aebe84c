"""The table of reason codes has exactly the codes of the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import autotrascale
from autotrascale.plan.control.observations import observation_checks
from autotrascale.plan.reason_codes import FAILED_CHECKS, REASON_CODES

PACKAGE = Path(autotrascale.__file__).parent
MAX_WORDS = 20


def literals(value: ast.expr) -> Iterator[str]:
    """Yield the strings that an expression may be. Of a tuple, the first element counts."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.IfExp):
        yield from (*literals(value.body), *literals(value.orelse))
    elif isinstance(value, ast.Tuple):
        yield from literals(value.elts[0])


def codes_of(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            if node.func.id == "Reason":
                yield from literals(node.args[0])
            elif node.func.id == "explain_unknown_signal":
                yield from (f"hold-unknown-{signal}" for signal in literals(node.args[0]))
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
            first = target.elts[0] if isinstance(target, ast.Tuple) else target
            if isinstance(first, ast.Name) and first.id in ("code", "HOLD_CODE"):
                yield from literals(node.value)


def test_the_table_has_exactly_the_reason_codes_of_the_package() -> None:
    files = [each for each in PACKAGE.rglob("*.py") if "testing" not in each.parts]
    used = {code for each in files for code in codes_of(ast.parse(each.read_text(encoding="utf-8")))}
    assert used == set(REASON_CODES)


def test_the_table_has_exactly_the_checks_of_an_observation() -> None:
    checks = (*observation_checks.CHECKS, *observation_checks.COMPARISONS)
    assert {why for why, _ in checks} == set(FAILED_CHECKS)


def test_each_meaning_is_one_short_sentence() -> None:
    for meaning in (*REASON_CODES.values(), *FAILED_CHECKS.values()):
        assert meaning.endswith(".")
        assert len(meaning.split()) <= MAX_WORDS, meaning
