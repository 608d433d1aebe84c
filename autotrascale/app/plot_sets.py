"""Plots of a tuning run and of a control loop, for the pages and for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autotrascale.domain.snapshot import Snapshot
from autotrascale.knowledge.decision_journal import recent_entries
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.recent_entries import JournalEntry, RecordedMeasurement
from autotrascale.knowledge.decision_journal.sessions import PastSession
from autotrascale.knowledge.run_history import RunRecord
from autotrascale.plan.control.loop_state import State
from autotrascale.plan.search.score import Benefit
from autotrascale.tuning import Outcome
from autotrascale.views.plots import benefit_model, loop_history, tuning_trials
from autotrascale.views.plots.batch_time import BATCH_TIME, plot_batch_time
from autotrascale.views.plots.critical_paths import SHARES, plot_critical_shares
from autotrascale.views.plots.loop_history import PlottedLoop, PlottedObservation, follow_requests
from autotrascale.views.plots.plot import Plot
from autotrascale.views.plots.service_lag import SERVICE_LAG, plot_service_lag
from autotrascale.views.plots.tuning_trials import SearchedRun

MAX_OPERATORS = 12  # with a slice of the model
MAX_OBSERVATIONS = 400

# Name and title of each plot.
RUN_PLOTS = (
    tuning_trials.SCORES,
    tuning_trials.LATENCIES,
    tuning_trials.INSTANCES,
    tuning_trials.CHOICES,
    loop_history.PREDICTIONS,
    benefit_model.ACQUISITION,
    BATCH_TIME,
)
LOOP_PLOTS = (
    loop_history.LATENCY,
    loop_history.PARALLELISM,
    loop_history.RATE,
    loop_history.BACKLOG,
    loop_history.PREDICTIONS,
    BATCH_TIME,
    SHARES,
)


def list_loop_plots(state: State) -> tuple[tuple[str, str], ...]:
    """Return name and title of each plot of a loop. Services have a plot if their latency is known."""
    return (*LOOP_PLOTS, SERVICE_LAG) if state.services.latency else LOOP_PLOTS


def plot_run(record: RunRecord, outcome: Outcome) -> list[Plot]:
    """Return the plots of a run with at least one trial."""
    settings, target = record.opening.settings, outcome.job.target.latency_seconds
    floor = outcome.job.topology.vector(outcome.floor)
    benefit = Benefit(floor, target, settings.alpha, settings.over_allocation)
    best = outcome.best.number
    snapshot = next((each.trial.snapshot for each in record.trials if each.evaluation.number == best), None)
    trials = tuning_trials.plot_run(SearchedRun(outcome.job, outcome.evaluations, benefit))
    return [*trials, *_plot_model(outcome), plot_batch_time(snapshot, simulated=outcome.simulated)]


def plot_empty_run() -> list[Plot]:
    """Return the plots of a run without a finished trial."""
    return [Plot.unavailable(name, title, "No trial is finished yet.") for name, title in RUN_PLOTS]


def plot_loop(
    loop: PlottedLoop, state: State, observations: Sequence[PlottedObservation], snapshot: Snapshot | None
) -> list[Plot]:
    """Return the plots of a loop.

    Args:
        loop: target of the loop, and whether its job is simulated.
        state: the last state.
        observations: the observations to plot, the oldest first.
        snapshot: the last snapshot among them.
    """
    why_missing = "The last observations have no measured window, or are not stored any more."
    services = [plot_service_lag(state.services)] if state.services.latency else []
    return [
        *loop_history.plot_loop(loop, observations),
        loop_history.plot_predictions(state.checked),
        plot_batch_time(snapshot, simulated=loop.simulated, why_missing=why_missing),
        plot_critical_shares(observations, simulated=loop.simulated),
        *services,
    ]


def plot_session(decisions: DecisionJournal, session: PastSession) -> list[Plot]:
    """Return the plots of a session's last observations."""
    header = session.header
    entries = recent_entries.read_entries(decisions, session.id, MAX_OBSERVATIONS)
    first, last = (entries[0].number, entries[-1].number) if entries else (0, 0)
    measurements = recent_entries.read_measurements(decisions, session.id, first - 1)
    observations = list(follow_requests(collect_observations(entries, measurements, simulated=header.simulated)))
    snapshot = recent_entries.read_last_snapshot(decisions, session.id, last) if entries else None
    return plot_loop(PlottedLoop(header.target, header.simulated), session.state, observations, snapshot)


def collect_observations(
    entries: Iterable[JournalEntry], measurements: Mapping[int, RecordedMeasurement], *, simulated: bool
) -> Iterable[PlottedObservation]:
    """Yield journal entries with their measurements. Times are those of the job: simulated time if it is simulated."""
    for each in entries:
        measured = measurements.get(each.number, RecordedMeasurement())
        at = each.entry["at"] if simulated else each.at
        yield PlottedObservation(each.number, at, each.entry, measured.throughput, critical=measured.critical)


def _plot_model(outcome: Outcome) -> list[Plot]:
    model, operators = outcome.model, list(outcome.job.topology)
    if model is None:
        why_missing = "The search did not begin: no measured parallelism sustains the rate."
        return [Plot.unavailable(*each, why_missing) for each in (loop_history.PREDICTIONS, benefit_model.ACQUISITION)]
    centre = outcome.best.parallelism
    return [
        *benefit_model.plot_slices(model, operators, centre)[:MAX_OPERATORS],
        benefit_model.plot_acquisition(model, operators, centre),
        benefit_model.plot_predictions(model, operators),
    ]
