"""All plots of a tuning run, or of a session of a control loop: for the pages and the terminal alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autotrascale.domain.snapshot import Snapshot
from autotrascale.knowledge.decisions import recent
from autotrascale.knowledge.decisions.journal import Decisions, Past
from autotrascale.knowledge.decisions.recent import Measured, Written
from autotrascale.knowledge.history import Record
from autotrascale.plan.control.loop_state import State
from autotrascale.plan.search.score import Benefit
from autotrascale.tuning import Outcome
from autotrascale.views.plots import batch, critical, search, services
from autotrascale.views.plots import job as job_plots
from autotrascale.views.plots import run as run_plots
from autotrascale.views.plots.job import Kept, Seen, in_order
from autotrascale.views.plots.plot import Plot
from autotrascale.views.plots.run import Searched

OPERATORS = 12  # slices that are drawn
SHOWN = 400  # looks of a plot

OF_A_RUN = (
    ("history", "Score against the stop threshold"),
    ("latencies", "Latency against the target"),
    ("instances", "Instances against the floor"),
    ("choices", "What was tried, operator by operator"),
    ("predictions", "Prediction against outcome"),
    ("acquisition", "Where another run would be worth most"),
    (batch.NAME, "Where the time goes"),
)
OF_A_LOOP = (
    ("latency", "Latency against the target"),
    ("parallelism", "Parallelism: running, requested, recommended"),
    ("rate", "Rate and throughput"),
    ("backlog", "Backlog"),
    ("predictions", "Prediction against outcome"),
    (batch.NAME, "Where the time goes"),
    (critical.LOOKS, critical.LOOKS_TITLE),
)


def titles(state: State) -> tuple[tuple[str, str], ...]:
    """Of all plots of a loop: services are not drawn where none is known."""
    return (*OF_A_LOOP, (services.NAME, services.TITLE)) if state.services.latency else OF_A_LOOP


def of_run(record: Record, outcome: Outcome) -> list[Plot]:
    settings, target = record.opening.settings, outcome.job.target.latency_seconds
    floor = outcome.job.topology.vector(outcome.floor)
    benefit = Benefit(floor, target, settings.alpha, settings.over_allocation)
    best = outcome.best.number
    window = next((each.trial.snapshot for each in record.trials if each.evaluation.number == best), None)
    searched = run_plots.plots(Searched(outcome.job, outcome.evaluations, benefit))
    return [*searched, *_of_model(outcome), batch.of(window, simulated=outcome.simulated)]


def of_run_without_evaluations() -> list[Plot]:
    return [Plot.not_to_be_had(name, title, "No evaluation is finished yet.") for name, title in OF_A_RUN]


def of_loop(kept: Kept, state: State, looks: Sequence[Seen], measured: Snapshot | None) -> list[Plot]:
    checked = [(each.predicted, each.sd, each.observed) for each in state.checked]
    old = "No window was measured in the last looks, or their looks are not kept any more."
    window = batch.of(measured, simulated=kept.simulated, why_not=old)
    paths = critical.of_looks(looks, simulated=kept.simulated)
    followed = [services.of(state.services)] if state.services.latency else []
    return [*job_plots.plots(kept, looks), job_plots.predictions(checked), window, paths, *followed]


def of_session(decisions: Decisions, past: Past) -> list[Plot]:
    """Of its last looks."""
    written = recent.entries(decisions, past.id, SHOWN)
    first, last = (written[0].number, written[-1].number) if written else (0, 0)
    looks = seen(written, recent.measured(decisions, past.id, first - 1), simulated=past.opening.simulated)
    measured = recent.last_snapshot(decisions, past.id, last) if written else None
    return of_loop(Kept(past.opening.target, past.opening.simulated), past.state, list(in_order(looks)), measured)


def seen(written: Iterable[Written], measured: Mapping[int, Measured], *, simulated: bool) -> Iterable[Seen]:
    """A simulated job has a clock of its own."""
    for each in written:
        window = measured.get(each.number, Measured())
        at = each.entry["at"] if simulated else each.at
        yield Seen(each.number, at, each.entry, window.throughput, critical=window.critical)


def _of_model(outcome: Outcome) -> list[Plot]:
    model, operators = outcome.model, list(outcome.job.topology)
    if model is None:
        why_not = "The search did not begin: no parallelism that holds the rate was found to search above."
        titles = [each for each in OF_A_RUN if each[0] in ("predictions", "acquisition")]
        return [Plot.not_to_be_had(name, title, why_not) for name, title in titles]
    centre = outcome.best.parallelism
    slices = search.slices(model, operators, centre)[:OPERATORS]
    return [*slices, search.acquisition(model, operators, centre), search.predictions(model, operators)]
