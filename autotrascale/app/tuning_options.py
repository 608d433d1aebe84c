"""Options of a tuning run: overrides of the job file's settings, and checks before hours of trials begin."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from autotrascale.app.job_file import EngineName, JobFile
from autotrascale.app.warm_start import AUTO, NONE
from autotrascale.atomic_files import draft_path
from autotrascale.domain.errors import InputError
from autotrascale.domain.trial import Sink
from autotrascale.plan.policies.registry import OURS
from autotrascale.tuning import TuningSettings


def override_settings(
    settings: TuningSettings, total_trials: int | None, max_seconds: float | None, seed: int | None
) -> TuningSettings:
    """Return `settings` with the values that are not None."""
    if total_trials is not None:
        settings = replace(settings, total_trials=total_trials)
    if max_seconds is not None:
        settings = replace(settings, max_seconds=max_seconds)
    return settings if seed is None else replace(settings, seed=seed)


def check_options(
    file: JobFile,
    engine: EngineName,
    *,
    policy: str | None = None,
    warm_start: str = AUTO,
    sink: Sink | None = None,
    save_model: Path | None = None,
) -> None:
    """Raise InputError if options contradict each other, or if the model cannot be saved."""
    if sink is not None and engine == "simulator":
        raise InputError("--sink", "applies to Spark jobs, not to the simulator", seen=sink, remedy="leave it out")
    policy_name = file.choose_policy(policy).name
    if policy_name != OURS:
        if warm_start not in (AUTO, NONE):
            problem = f"applies to the policy {OURS}: {policy_name} uses no model"
            raise InputError("--warm-start", problem, seen=warm_start, remedy="leave it out")
        if save_model is not None:
            problem = f"applies to the policy {OURS}: {policy_name} makes no model"
            raise InputError("--save-model", problem, seen=str(save_model), remedy="leave it out")
    if save_model is not None:
        _check_writable("--save-model", save_model)


def _check_writable(place: str, path: Path) -> None:
    seen = str(path)
    if not path.absolute().parent.is_dir():
        raise InputError(place, "is in a folder that does not exist", seen=seen, remedy="create the folder")
    try:
        if os.path.lexists(path) and not path.is_file():
            raise InputError(place, "exists and is not a file", seen=seen, remedy="name a file")
        draft_path(path).touch()
        draft_path(path).unlink()
    except OSError as error:
        raise InputError(place, f"cannot be written: {error.strerror}", seen=seen, remedy="name another file") from None
