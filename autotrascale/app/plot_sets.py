"""All plots of a tuning run, or of a session of a control loop: for the pages and the terminal alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autotrascale.domain.snapshot import Snapshot
from autotrascale.knowledge.decision_journal import recent_entries
from autotrascale.knowledge.decision_journal.journal import DecisionJournal, PastSession
from autotrascale.knowledge.decision_journal.recent_entries import JournalEntry, RecordedMeasurement
from autotrascale.knowledge.run_history import RunRecord
from autotrascale.plan.control.loop_state import State
from autotrascale.plan.search.score import Benefit
from autotrascale.tuning import Outcome
from autotrascale.views.plots import batch_time, benefit_model, critical_paths, service_lag
from autotrascale.views.plots import loop_history as job_plots
from autotrascale.views.plots import tuning_trials as run_plots
from autotrascale.views.plots.loop_history import PlottedLoop, PlottedObservation, follow_requests
from autotrascale.views.plots.plot import Plot
from autotrascale.views.plots.tuning_trials import SearchedRun

MAX_OPERATORS = 12  # slices that are drawn
MAX_OBSERVATIONS = 400  # looks of a plot

RUN_PLOTS = (
    ("history", "Score against the stop threshold"),
    ("latencies", "Latency against the target"),
    ("instances", "Instances against the floor"),
    ("choices", "What was tried, operator by operator"),
    ("predictions", "Prediction against outcome"),
    ("acquisition", "Where another run would be worth most"),
    (batch_time.NAME, "Where the time goes"),
)
LOOP_PLOTS = (
    ("latency", "Latency against the target"),
    ("parallelism", "Parallelism: running, requested, recommended"),
    ("rate", "Rate and throughput"),
    ("backlog", "Backlog"),
    ("predictions", "Prediction against outcome"),
    (batch_time.NAME, "Where the time goes"),
    (critical_paths.LOOKS, critical_paths.LOOKS_TITLE),
)


def list_loop_plots(state: State) -> tuple[tuple[str, str], ...]:
    """Of all plots of a loop: services are not drawn where none is known."""
    return (*LOOP_PLOTS, (service_lag.NAME, service_lag.TITLE)) if state.services.latency else LOOP_PLOTS


def plot_run(record: RunRecord, outcome: Outcome) -> list[Plot]:
    settings, target = record.opening.settings, outcome.job.target.latency_seconds
    floor = outcome.job.topology.vector(outcome.floor)
    benefit = Benefit(floor, target, settings.alpha, settings.over_allocation)
    best = outcome.best.number
    window = next((each.trial.snapshot for each in record.trials if each.evaluation.number == best), None)
    searched = run_plots.plot_run(SearchedRun(outcome.job, outcome.evaluations, benefit))
    return [*searched, *_of_model(outcome), batch_time.plot_batch_time(window, simulated=outcome.simulated)]


def plot_empty_run() -> list[Plot]:
    return [Plot.unavailable(name, title, "No evaluation is finished yet.") for name, title in RUN_PLOTS]


def plot_loop(
    kept: PlottedLoop, state: State, looks: Sequence[PlottedObservation], measured: Snapshot | None
) -> list[Plot]:
    checked = [(each.predicted, each.sd, each.observed) for each in state.checked]
    old = "No window was measured in the last looks, or their looks are not kept any more."
    window = batch_time.plot_batch_time(measured, simulated=kept.simulated, why_not=old)
    paths = critical_paths.plot_critical_shares(looks, simulated=kept.simulated)
    followed = [service_lag.plot_service_lag(state.services)] if state.services.latency else []
    return [*job_plots.plot_loop(kept, looks), job_plots.plot_predictions(checked), window, paths, *followed]


def plot_session(decisions: DecisionJournal, past: PastSession) -> list[Plot]:
    """Of its last looks."""
    written = recent_entries.read_entries(decisions, past.id, MAX_OBSERVATIONS)
    first, last = (written[0].number, written[-1].number) if written else (0, 0)
    looks = collect_observations(
        written, recent_entries.read_measurements(decisions, past.id, first - 1), simulated=past.opening.simulated
    )
    measured = recent_entries.read_last_snapshot(decisions, past.id, last) if written else None
    return plot_loop(
        PlottedLoop(past.opening.target, past.opening.simulated), past.state, list(follow_requests(looks)), measured
    )


def collect_observations(
    written: Iterable[JournalEntry], measured: Mapping[int, RecordedMeasurement], *, simulated: bool
) -> Iterable[PlottedObservation]:
    """A simulated job has a clock of its own."""
    for each in written:
        window = measured.get(each.number, RecordedMeasurement())
        at = each.entry["at"] if simulated else each.at
        yield PlottedObservation(each.number, at, each.entry, window.throughput, critical=window.critical)


def _of_model(outcome: Outcome) -> list[Plot]:
    model, operators = outcome.model, list(outcome.job.topology)
    if model is None:
        why_not = "The search did not begin: no parallelism that holds the rate was found to search above."
        titles = [each for each in RUN_PLOTS if each[0] in ("predictions", "acquisition")]
        return [Plot.unavailable(name, title, why_not) for name, title in titles]
    centre = outcome.best.parallelism
    slices = benefit_model.plot_slices(model, operators, centre)[:MAX_OPERATORS]
    return [
        *slices,
        benefit_model.plot_acquisition(model, operators, centre),
        benefit_model.plot_predictions(model, operators),
    ]
