"""The time budget: no trial begins after it, and a larger budget resumes the run."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from autotrascale.domain.errors import InputError
from autotrascale.knowledge import run_history
from autotrascale.knowledge.run_journal import RunJournal
from autotrascale.tuning import JournalledTrial, Outcome, TuningSettings, tune
from tests.knowledge import mlflow_stores


class Kept:
    """A journal in memory."""

    def __init__(self) -> None:
        self.trials: list[JournalledTrial] = []

    def begin(self, *_: object) -> None:
        """Do nothing."""

    def done(self, trial: JournalledTrial) -> None:
        self.trials.append(trial)


def run(max_seconds: float | None, past: tuple[JournalledTrial, ...] = (), journal: Kept | None = None) -> Outcome:
    """Each call returns a time one second later than the previous call."""
    ticks = itertools.count()
    return tune(
        mlflow_stores.job(),
        mlflow_stores.engine(len(past)),
        TuningSettings(seed=8, max_seconds=max_seconds),
        past=past,
        clock=lambda: float(next(ticks)),
        journal=journal,
    )


def test_a_used_up_time_budget_ends_the_run_in_any_phase() -> None:
    whole = run(None)
    assert whole.stop_reason == "target-met"
    for seconds in range(1, 3 * len(whole.evaluations)):
        cut = run(float(seconds))
        parallelisms = [e.parallelism for e in cut.evaluations]
        assert parallelisms == [e.parallelism for e in whole.evaluations[: len(parallelisms)]]
        assert parallelisms, "there is always something to report"
        if len(parallelisms) == len(whole.evaluations):
            assert cut.stop_reason == "target-met"
        # Second looks at what is cheaper follow the acceptance: cut off there, the target is met all the same.
        assert cut.stop_reason == ("target-met" if cut.met_target else "wall-clock")
    assert len(run(1.0).evaluations) == 1


def test_earlier_time_counts_and_recalled_trials_take_none() -> None:
    journal = Kept()
    cut = run(8.0, journal=journal)
    assert cut.stop_reason == "wall-clock"
    past = tuple(journal.trials)
    assert len(past) >= 2
    again = run(sum(each.evaluation.seconds for each in past), past)
    assert (again.stop_reason, len(again.evaluations)) == ("wall-clock", len(past))
    wider = run(1000.0, past)
    assert wider.stop_reason == "target-met"
    assert [e.parallelism for e in wider.evaluations] == [e.parallelism for e in run(None).evaluations]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_an_invalid_budget_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="max_seconds"):
        TuningSettings(max_seconds=seconds)


def test_a_run_that_ran_out_of_time_is_resumed_with_a_larger_budget(empty_database: Path, tmp_path: Path) -> None:
    store = mlflow_stores.embedded(empty_database, tmp_path)
    job = mlflow_stores.job("clocked")
    opening = mlflow_stores.opening(job, TuningSettings(seed=8, max_seconds=1e-9))
    with RunJournal.start(store, opening) as journal:
        outcome = tune(job, mlflow_stores.engine(), opening.settings, journal=journal)
        journal.conclude(outcome)
        journal.finish()
    run = run_history.find_run(store, "clocked")
    assert run_history.summarise_run(store, run).why == "wall-clock"
    with pytest.raises(InputError, match=r"is finished \(wall-clock\).*--max-seconds"):
        RunJournal.resume(store, run)
    with pytest.raises(InputError, match="max_seconds"):
        RunJournal.resume(store, run, max_seconds=-1.0)
    assert run_history.find_run(store, "clocked").info.status == "FINISHED"
    with RunJournal.resume(store, run, max_seconds=600.0) as journal:
        assert journal.opening.settings.max_seconds == 600.0
        assert len(journal.past) == 1
