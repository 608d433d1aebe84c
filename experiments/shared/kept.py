"""What was measured already: one file for each case, named by the hash of the case and of the code that measures it.

A run that is stopped goes on where it was, and a change of the code measures everything anew that it could change. The
folder (`out/experiments`) is not in the repository.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from autotrascale.atomic_files import write_atomically
from experiments.shared.claim import EXPERIMENTS, ROOT, Case, Claim, Measured

KEPT = ROOT / "out" / "experiments"
# What simulated measurements depend on, for every claim. Sizes of executors are no part of any.
CODE = (
    "autotrascale/domain",
    "autotrascale/plan/control",
    "autotrascale/plan/migration",
    "autotrascale/plan/policies",
    "autotrascale/plan/search",
    "autotrascale/plan/sizing",
    "autotrascale/execute/simulator",
    "autotrascale/tuning",
    "autotrascale/loop.py",
    "autotrascale/study.py",
    "experiments/shared/published.json",
    "experiments/shared/published.py",
    "experiments/shared/jobs.py",
    "experiments/shared/driving.py",
)


def key(claim: Claim, case: Case) -> str:
    about = {"claim": claim.name, "case": case, "code": version((*CODE, f"experiments/{claim.name}", *claim.code))}
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]


@cache
def version(places: tuple[str, ...]) -> str:
    """Of the sources in these files and folders, in the order of their names. A claim's `run.py` only tells of what was
    measured: a column more in a table measures nothing anew."""
    found = hashlib.sha256()
    for place in places:
        path = ROOT / place
        files = _sources(path) if path.is_dir() else [path] if path.exists() else []
        for file in files:
            found.update(str(file.relative_to(ROOT)).encode())
            found.update(file.read_bytes())
    return found.hexdigest()


def _sources(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*.py") if file.parent.parent != EXPERIMENTS or file.name != "run.py")


def recall(claim: Claim, case: Case, folder: Path = KEPT) -> Measured | None:
    path = _path(claim, case, folder)
    try:
        found: Measured = json.loads(path.read_text(encoding="utf-8"))["measured"]
    except (OSError, ValueError, KeyError, TypeError):  # not there, or cut off by whatever stopped us: measured again
        return None
    return found


def keep(claim: Claim, case: Case, measured: Measured, folder: Path = KEPT, seconds: float = 0.0) -> None:
    """`seconds`: of CPU, that measuring took."""
    path = _path(claim, case, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"case": case, "measured": measured, "cpu_seconds": seconds}, allow_nan=False))


def took(claim: Claim, cases: Sequence[Case], folder: Path = KEPT) -> float:
    """Seconds of CPU that all these took, whenever they were measured."""
    told = (json.loads(_path(claim, case, folder).read_text(encoding="utf-8")) for case in cases)
    return sum(float(each.get("cpu_seconds", 0.0)) for each in told)


def _path(claim: Claim, case: Case, folder: Path) -> Path:
    return folder / claim.name / f"{key(claim, case)}.json"
