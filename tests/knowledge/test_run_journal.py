"""The promises of the run journal, for an embedded store and for a served one."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from mlflow.entities import ViewType

from autotrascale.domain.errors import EngineError, InputError, RunCancelledError, RunLostError, RunStoreError
from autotrascale.knowledge import job_lock, lease, run_history, tags
from autotrascale.knowledge import run_journal as journal_module
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.process_identity import ProcessIdentity
from autotrascale.knowledge.run_journal import RunJournal
from autotrascale.tuning import JournalledTrial, Outcome, TrialPhase, TuningSettings, tune
from tests.knowledge.mlflow_stores import SETTINGS, engine, job, opening, tuned


class Stopper:
    """A journal that raises before the trial of a given number."""

    def __init__(self, journal: RunJournal, number: int, error: BaseException) -> None:
        self.journal, self.number, self.error = journal, number, error

    def begin(self, number: int, phase: TrialPhase, parallelism: Mapping[str, int]) -> None:
        """Do nothing: no trial is under way."""
        self.journal.begin(number, phase, parallelism)
        if number == self.number:
            raise self.error

    def done(self, recorded: JournalledTrial) -> None:
        self.journal.done(recorded)


def stopped_run(
    store: MlflowStore, name: str, number: int, error: BaseException, settings: TuningSettings = SETTINGS
) -> str:
    journal = RunJournal.start(store, opening(job(name), settings))
    with pytest.raises(type(error)), journal:
        tuned(job(name), Stopper(journal, number, error))
    return journal.run_id


def whole_run(store: MlflowStore, name: str) -> tuple[str, Outcome]:
    with RunJournal.start(store, opening(job(name))) as journal:
        outcome = tuned(job(name), journal)
        journal.conclude(outcome)
        journal.finish()
    return journal.run_id, outcome


def resumed(store: MlflowStore, run_id: str, **given: Any) -> Outcome:
    with RunJournal.resume(store, run_history.find_run(store, run_id), **given) as journal:
        start = journal.opening
        outcome = tune(start.job, engine(len(journal.past)), start.settings, journal=journal, past=journal.past)
        journal.conclude(outcome)
        journal.finish()
    return outcome


def same(outcome: Outcome, other: Outcome) -> bool:
    """Return whether two outcomes are equal except for their seconds."""
    return _timeless(outcome) == _timeless(other)


def _timeless(outcome: Outcome) -> Outcome:
    evaluations = tuple(replace(each, seconds=0.0) for each in outcome.evaluations)
    return replace(outcome, evaluations=evaluations, best=replace(outcome.best, seconds=0.0))


def states(store: MlflowStore, name: str) -> list[str]:
    return [each.state for each in run_history.list_runs(store, name)]


def test_a_run_is_read_back_as_it_was(store: MlflowStore, name: str) -> None:
    run_id, outcome = whole_run(store, name)
    record = run_history.read_run(store, run_history.find_run(store, run_id))
    assert record.outcome == outcome == run_history.compute_outcome(record)
    assert record.opening == opening(job(name))
    assert [each.evaluation for each in record.trials] == list(outcome.evaluations)
    summary = record.summary
    assert (summary.state, summary.job, summary.met_target) == ("finished", name, True)
    assert (summary.evaluations, summary.why) == (len(outcome.evaluations), "target-met")


def test_every_evaluation_is_a_nested_run_that_mlflow_can_plot(store: MlflowStore, name: str) -> None:
    run_id, outcome = whole_run(store, name)
    wanted = f"tags.`{tags.PARENT_RUN}` = '{run_id}'"
    found = store.client.search_runs([store.experiment(name)], wanted, order_by=["attributes.start_time"])
    assert [run.info.status for run in found] == ["FINISHED"] * len(outcome.evaluations)
    last, evaluation = found[-1].data, outcome.evaluations[-1]
    assert last.params == {f"k.{operator}": str(k) for operator, k in evaluation.parallelism.items()}
    assert last.metrics["latency_seconds"] == evaluation.latency_seconds
    assert last.metrics["throughput"] == evaluation.throughput
    assert last.metrics["score"] == evaluation.score
    assert (last.tags[tags.PHASE], last.tags[tags.VERDICT]) == (evaluation.phase, "stable")
    parent = store.client.get_run(run_id).data
    assert parent.params["latency_target"] == "0.07"
    assert parent.metrics["evaluations"] == len(outcome.evaluations)


@pytest.mark.parametrize("number", [1, 4])
def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(embedded: MlflowStore, name: str, number: int) -> None:
    run_id = stopped_run(embedded, name, number, KeyboardInterrupt())
    assert states(embedded, name) == ["interrupted"]
    assert len(run_history.read_trials(embedded, run_history.find_run(embedded, run_id))) == number - 1
    assert same(resumed(embedded, run_id), tuned(job(name)))
    assert states(embedded, name) == ["finished"]
    wanted = f"attributes.status = 'RUNNING' AND tags.`{tags.JOB}` = '{name}'"
    assert embedded.client.search_runs([embedded.experiment(name)], wanted) == []


def test_a_run_whose_engine_broke_says_so_and_can_be_resumed(embedded: MlflowStore, name: str) -> None:
    run_id = stopped_run(embedded, name, 2, EngineError("the host is gone"))
    summary = run_history.list_runs(embedded, name)[0]
    assert (summary.state, summary.why, summary.evaluations) == ("failed", "the host is gone", 1)
    assert same(resumed(embedded, run_id), tuned(job(name)))


def test_ctrl_c_while_a_measurement_is_being_kept_loses_nothing(
    embedded: MlflowStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, interrupted = RunJournal._save, []

    def interrupt_once(self: RunJournal, recorded: JournalledTrial) -> None:
        if recorded.evaluation.number == 3 and not interrupted:
            interrupted.append(recorded)
            raise KeyboardInterrupt
        keep(self, recorded)

    monkeypatch.setattr(RunJournal, "_save", interrupt_once)
    with pytest.raises(KeyboardInterrupt), RunJournal.start(embedded, opening(job(name))) as journal:
        tuned(job(name), journal)
    kept = run_history.read_trials(embedded, run_history.find_run(embedded, journal.run_id))
    assert kept[-1] == interrupted[0]
    assert len(kept) == 3


def test_a_finished_run_has_nothing_to_resume(embedded: MlflowStore, name: str) -> None:
    run_id, _ = whole_run(embedded, name)
    with pytest.raises(InputError, match=r"is finished \(target-met\), so it cannot be resumed; see"):
        resumed(embedded, run_id, total_trials=30)


def test_a_budget_is_a_total_and_can_be_widened(embedded: MlflowStore, name: str) -> None:
    settings = replace(SETTINGS, total_trials=3)
    with RunJournal.start(embedded, opening(job(name), settings)) as journal:
        outcome = tune(job(name), engine(), settings, journal=journal)
        journal.conclude(outcome)
        journal.finish()
    assert (outcome.stop_reason, len(outcome.evaluations)) == ("budget", 3)
    with pytest.raises(InputError, match="give it more with --total-trials"):
        resumed(embedded, journal.run_id)
    assert same(resumed(embedded, journal.run_id, total_trials=20), tuned(job(name)))
    record = run_history.read_run(embedded, run_history.find_run(embedded, journal.run_id))
    assert record.opening.settings.total_trials == 20


def test_one_run_at_a_time_for_a_job(store: MlflowStore, name: str) -> None:
    with RunJournal.start(store, opening(job(name))) as first:
        with pytest.raises(InputError, match=f"is being tuned already, as run {first.run_id} by process"):
            RunJournal.start(store, opening(job(name)))
        assert states(store, name) == ["running"]
        with pytest.raises(InputError, match="is under way, by process"):
            resumed(store, first.run_id)
        with RunJournal.start(store, opening(job(f"{name}-other"))):
            pass
    assert states(store, name) == ["interrupted"]
    with RunJournal.start(store, opening(job(name))):
        pass


def test_of_two_that_start_at_once_one_goes_on(
    embedded: MlflowStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look before either has taken the job. Only one can make the next number."""
    looks = threading.Barrier(2, timeout=20)
    make = lease._make_lease

    def together(*given: Any) -> bool:
        looks.wait()
        return make(*given)

    monkeypatch.setattr(lease, "_make_lease", together)
    started: list[RunJournal] = []
    refused: list[InputError] = []

    def start() -> None:
        try:
            started.append(RunJournal.start(embedded, opening(job(name))))
        except InputError as error:
            refused.append(error)

    embedded.experiment(name)
    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(started), len(refused)) == (1, 1)
    assert states(embedded, name) == ["running"]
    with started[0]:
        pass


def crashed_run(store: MlflowStore, name: str, owner: ProcessIdentity | None = None) -> str:
    """Leave a run behind like a killed process: marked as running."""
    journal = RunJournal.start(store, opening(job(name)))
    journal.begin(1, "floor", {"source": 1, "count": 1})
    journal.lease.owner.mark_inactive()
    if owner is not None:
        for tag, value in job_lock.owner_tags(owner).items():
            store.client.set_tag(journal.run_id, tag, value)
            store.client.set_registered_model_tag(journal.lease._name, tag, value)
    return journal.run_id


def test_a_crashed_run_is_recognised_and_does_not_block_the_next(store: MlflowStore, name: str) -> None:
    run_id = crashed_run(store, name, replace(ProcessIdentity.current(), pid=2**22 + 1, started="1"))
    summary = run_history.list_runs(store, name)[0]
    assert (summary.state, summary.why) == (
        "crashed",
        f"process {2**22 + 1} on {ProcessIdentity.current().host} is gone",
    )
    with RunJournal.start(store, opening(job(name))):
        pass
    assert states(store, name) == ["interrupted", "interrupted"]
    assert same(resumed(store, run_id), tuned(job(name)))


def test_a_process_number_that_was_given_again_is_another_process(embedded: MlflowStore, name: str) -> None:
    crashed_run(embedded, name, replace(ProcessIdentity.current(), started="1"))
    assert states(embedded, name) == ["crashed"]


def test_on_another_machine_the_heartbeat_tells(embedded: MlflowStore, name: str) -> None:
    run_id = crashed_run(embedded, name, replace(ProcessIdentity.current(), machine="elsewhere", host="elsewhere"))
    assert states(embedded, name) == ["running"]
    embedded.client.set_tag(run_id, tags.HEARTBEAT, "1700000000")
    assert states(embedded, name) == ["crashed"]
    embedded.client.set_tag(run_id, tags.HEARTBEAT, "rubbish")
    assert states(embedded, name) == ["crashed"]


def test_an_owner_nobody_can_read_is_nobody(embedded: MlflowStore, name: str) -> None:
    run_id = crashed_run(embedded, name)
    embedded.client.set_tag(run_id, tags.OWNER, "{}")
    summary = run_history.list_runs(embedded, name)[0]
    assert (summary.state, summary.why) == ("crashed", "an unknown process is gone")


def test_the_heart_beats_while_a_trial_runs(embedded: MlflowStore, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.05)
    beaten = threading.Event()
    set_tag = embedded.client.set_tag

    def noticed(run_id: str, key: str, value: Any) -> None:
        set_tag(run_id, key, value)
        if key == tags.HEARTBEAT:
            beaten.set()

    with RunJournal.start(embedded, opening(job(name))) as journal:
        monkeypatch.setattr(embedded.client, "set_tag", noticed)
        assert beaten.wait(10)
    assert not journal.lease._thread.is_alive()


def test_a_run_that_was_taken_over_is_left_alone(embedded: MlflowStore, name: str) -> None:
    """A process that slept too long finds that another process does its work."""
    first = RunJournal.start(embedded, opening(job(name)))
    first.lease.owner.mark_inactive()
    with RunJournal.resume(embedded, run_history.find_run(embedded, first.run_id)):
        with pytest.raises(RunLostError, match="was taken over by process"), first:
            tuned(job(name), first)
        assert states(embedded, name) == ["running"]
    assert states(embedded, name) == ["interrupted"]


def everything(store: MlflowStore, name: str) -> list[tuple[Any, ...]]:
    """Return everything about every run of the job, including deleted runs."""
    found = store.client.search_runs([store.experiment(name)], run_view_type=ViewType.ALL)
    return sorted(
        (
            run.info.run_id,
            run.info.status,
            run.info.lifecycle_stage,
            sorted(run.data.tags.items()),
            sorted(run.data.metrics.items()),
            sorted(run.data.params.items()),
        )
        for run in found
    )


@pytest.mark.parametrize("write", ["create_run", "log_text", "log_batch", "set_terminated"])
def test_a_write_that_comes_a_moment_too_late_changes_nothing(
    store: MlflowStore, name: str, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst moment to be paused: after the check of the lease, before the write."""
    trials: list[JournalledTrial] = []
    whole = tuned(job(name), RememberedTrials(trials))
    first = RunJournal.start(store, opening(job(name)))
    step = partial(first.begin, 1, "floor", trials[0].evaluation.parallelism)
    if write != "create_run":
        step()
        step = partial(first.done, trials[0])
    action, others = getattr(store.client, write), []

    def paused(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(store.client, write, action)
        first.lease.owner.mark_inactive()
        assert same(resumed(store, first.run_id), whole)
        others.extend(everything(store, name))
        return action(*given, **named)

    monkeypatch.setattr(store.client, write, paused)
    with pytest.raises(RunLostError, match="was taken over by process"):
        step()
    first.lease.release()
    late = [run for run in everything(store, name) if run not in others]
    assert [run[2] for run in late] == (["deleted"] if write == "create_run" else [])  # made and undone
    assert len(run_history.read_trials(store, run_history.find_run(store, first.run_id))) == len(whole.evaluations)


class RememberedTrials:
    """A journal that only remembers its trials."""

    def __init__(self, trials: list[JournalledTrial]) -> None:
        self.trials = trials

    def begin(self, number: int, phase: TrialPhase, parallelism: Mapping[str, int]) -> None:
        """Nothing is under way here."""

    def done(self, recorded: JournalledTrial) -> None:
        self.trials.append(recorded)


def test_a_run_that_is_cancelled_ends_before_its_next_trial(
    store: MlflowStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "CANCEL_CHECK_SECONDS", 0.0)
    journal = RunJournal.start(store, opening(job(name)))
    journal.begin(1, "floor", {"source": 1, "count": 1})
    assert job_lock.cancel_run(store, store.client.get_run(journal.run_id)) is False
    with pytest.raises(RunCancelledError, match=f"run {journal.run_id} was cancelled"), journal:
        journal.begin(2, "floor", {"source": 2, "count": 2})
    summary = run_history.list_runs(store, name)[0]
    assert (summary.state, summary.why) == ("interrupted", "cancelled")
    with pytest.raises(InputError, match="is not running, it is killed"):
        job_lock.cancel_run(store, store.client.get_run(journal.run_id))
    assert same(resumed(store, journal.run_id), tuned(job(name)))


def test_a_trial_under_way_is_kept_before_a_cancelled_run_ends(
    embedded: MlflowStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "CANCEL_CHECK_SECONDS", 0.0)
    journal = RunJournal.start(embedded, opening(job(name)))

    class Cancelling(Stopper):
        def begin(self, number: int, phase: TrialPhase, parallelism: Mapping[str, int]) -> None:
            self.journal.begin(number, phase, parallelism)
            if number == 2:
                job_lock.cancel_run(embedded, embedded.client.get_run(journal.run_id))

    with pytest.raises(RunCancelledError), journal:
        tuned(job(name), Cancelling(journal, 0, KeyboardInterrupt()))
    assert run_history.list_runs(embedded, name)[0].evaluations == 2


def test_cancelling_a_crashed_run_ends_it_at_once(embedded: MlflowStore, name: str) -> None:
    run_id = crashed_run(embedded, name)
    assert job_lock.cancel_run(embedded, embedded.client.get_run(run_id)) is True
    assert states(embedded, name) == ["interrupted"]


def test_a_run_killed_before_its_opening_was_kept_is_refused_in_words(embedded: MlflowStore, name: str) -> None:
    run = embedded.client.create_run(embedded.experiment(name), tags={tags.KIND: tags.TUNING, tags.JOB: name})
    assert states(embedded, name) == ["crashed"]
    with pytest.raises(InputError, match="has no opening: it ended before its first evaluation"):
        resumed(embedded, run.info.run_id)


def test_a_damaged_trial_is_named(embedded: MlflowStore, name: str) -> None:
    run_id = stopped_run(embedded, name, 2, KeyboardInterrupt())
    child = next(run_history._finished_evaluations(embedded, embedded.client.get_run(run_id)))
    file = f"trials/{tags.trial_file_name(1, child.info.run_id)}"
    for text, said in (("{", f"{file} is damaged"), ('{"version": 1}', f"{file}: evaluation: is missing")):
        embedded.client.log_text(run_id, text, file)
        with pytest.raises((RunStoreError, InputError), match=said):
            resumed(embedded, run_id)
    embedded.client.set_tag(child.info.run_id, tags.NUMBER, "7")
    with pytest.raises(RunStoreError, match="is missing, so a finished evaluation is lost"):
        resumed(embedded, run_id)


def test_runs_are_found_by_id_beginning_job_and_last(embedded: MlflowStore, name: str) -> None:
    run_id, _ = whole_run(embedded, name)
    for said in (run_id, run_id[:12], name, "last"):
        assert run_history.find_run(embedded, said).info.run_id == run_id
    for said in ("0" * 32, "0" * 31, "no-such-job"):
        with pytest.raises(InputError, match="is not in the store"):
            run_history.find_run(embedded, said)
    child = next(run_history._finished_evaluations(embedded, embedded.client.get_run(run_id)))
    with pytest.raises(InputError, match="it is not a tuning run"):
        run_history.find_run(embedded, child.info.run_id)


def test_a_run_that_never_measured_anything_cannot_be_explained(embedded: MlflowStore, name: str) -> None:
    run_id = stopped_run(embedded, name, 1, KeyboardInterrupt())
    record = run_history.read_run(embedded, run_history.find_run(embedded, run_id))
    with pytest.raises(InputError, match="has no finished evaluation"):
        run_history.compute_outcome(record)


@pytest.mark.parametrize("number", [2, 5])
def test_an_unfinished_run_is_explained_by_what_is_there(embedded: MlflowStore, name: str, number: int) -> None:
    run_id = stopped_run(embedded, name, number, KeyboardInterrupt())
    outcome = run_history.compute_outcome(run_history.read_run(embedded, run_history.find_run(embedded, run_id)))
    assert outcome.evaluations == tuned(job(name)).evaluations[: number - 1] or len(outcome.evaluations) == number - 1
    assert outcome.stop_reason == "interrupted"


def test_a_job_with_awkward_names_is_journalled_like_any_other(store: MlflowStore, name: str) -> None:
    awkward = f"{name}: a/b 'c' \"d\" 漢"
    run_id, outcome = whole_run(store, awkward)
    assert run_history.read_run(store, run_history.find_run(store, run_id)).outcome == outcome
    assert run_history.find_run(store, awkward).info.run_id == run_id


def test_parameters_have_names_that_mlflow_takes_and_no_two_the_same() -> None:
    assert tags.param_names(["a", "b#c", "b/c", "漢"]) == ["k.a", "k.b_c", "k.b_c 2", "k.漢"]
    assert tags.format_vector([1] * 1000).endswith("...")


def test_many_operators_do_not_fit_one_batch_and_are_all_there(embedded: MlflowStore, name: str) -> None:
    run = embedded.client.create_run(embedded.experiment(name))
    params = {f"k.{i}": i for i in range(250)}
    journal_module.log_batches(embedded, run.info.run_id, params, {"a": None, "b": 1.0}, {"verdict": "stable"})
    found = embedded.client.get_run(run.info.run_id).data
    assert len(found.params) == 250
    assert found.metrics == {"b": 1.0}
