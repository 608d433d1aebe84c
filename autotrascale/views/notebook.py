"""How studies, runs, models and decisions look in a notebook, and a tuning run in MLflow's pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

from autotrascale.domain.decision import Decision
from autotrascale.domain.participation import Participation
from autotrascale.plan.search.benefit_model import BenefitModel, Sample
from autotrascale.plan.search.runs import Best, Run
from autotrascale.plan.search.study import Study
from autotrascale.plan.words import amount, seconds
from autotrascale.tuning import Evaluation, Outcome
from autotrascale.views import critical
from autotrascale.views.explanation import likely, named, why
from autotrascale.views.html import Point, box, chart, line, listing, page, table
from autotrascale.views.verdict import summary

_ENDED: Mapping[str | None, str] = {
    None: "the search goes on",
    "target-met": "it is over: the answer can be trusted to meet the target",
    "rule-unsatisfiable": "it is over: only more than the over-allocation allows would meet the target",
    "exhausted": "it is over: every configuration was run",
    "budget": "it is over: the runs are used up",
}


@singledispatch
def as_html(value: object) -> str:
    raise TypeError(f"{type(value).__name__} has no look of its own")


@as_html.register
def _study(study: Study) -> str:
    target = study.benefit.latency_target
    title = f"Study: latency target {seconds(target)}, {len(study.runs)} of at most {study.max_runs} runs"
    bounds = f"between floor {_vector(study.lattice.lower)} and P_max {_vector(study.lattice.upper)}"
    if not study.runs:
        return box(title, line(f"{bounds}; nothing has been told yet"))
    answer = study.answer
    points = [
        Point(i, _ms(run.latency), _run_words(run), run.parallelism == answer.parallelism)
        for i, run in enumerate(study.runs, 1)
    ]
    strong = next(i for i, run in enumerate(study.runs) if run.parallelism == answer.parallelism)
    return box(
        title,
        line(f"{bounds}; {_ENDED.get(study.stop_reason, study.stop_reason or '')}"),
        line(_best_words(answer)),
        chart(points, 1000 * target, "ms", "Latency of each run; dashed: the target"),
        table(_RUNS, [_run_row(run) for run in study.runs], strong),
        listing(study.remarks),
    )


@as_html.register
def _best(best: Best) -> str:
    return box("The configuration to use", line(_best_words(best)))


@as_html.register
def _run(run: Run) -> str:
    return box("A run", table(_RUNS, [_run_row(run)]))


@as_html.register
def _model(model: BenefitModel) -> str:
    others = sorted({ancestor.rate for ancestor in model.ancestors})
    beside = f", learned together with runs at {', '.join(f'{amount(rate)}/s' for rate in others)}" if others else ""
    return box(
        f"Benefit model at {amount(model.rate)} records/s, latency target {seconds(model.latency_target)}",
        line(f"floor {_vector(model.floor)}, P_max {_vector(model.p_max)}{beside}"),
        table(("parallelism", "latency", "benefit score", "windows"), [_sample_row(each) for each in model.samples]),
    )


@as_html.register
def _decision(decision: Decision) -> str:
    does = (
        "holds on what it does not know" if decision.hold else "a change" if decision.changed else "nothing to change"
    )
    return box(
        f"Decision of {decision.policy}: {does}",
        table(("operator", "parallelism"), list(decision.parallelism.items())),
        listing(reason.text for reason in decision.reasons),
    )


@as_html.register
def _outcome(outcome: Outcome) -> str:
    simulated = " (simulated)" if outcome.simulated else ""
    best = outcome.best.parallelism
    points = [
        Point(
            each.number,
            _ms(each.latency_seconds),
            f"{named(each.parallelism)}: {_evaluated(each)}",
            each.parallelism == best,
        )
        for each in outcome.evaluations
    ]
    upper = dict(zip(outcome.job.topology, outcome.job.upper, strict=True))
    rows = [(each.operator, each.k, each.floor, upper[each.operator], each.text) for each in why(outcome)]
    trials = [(each.number, each.phase, named(each.parallelism), _evaluated(each)) for each in outcome.evaluations]
    return box(
        f"Tuning run of {outcome.job.name}{simulated} at {amount(outcome.job.rate)} records/s",
        line(summary(outcome)),
        table(("operator", "chosen" if outcome.met_target else "nearest miss", "floor", "P_max", "why"), rows),
        chart(points, 1000 * outcome.job.target.latency_seconds, "ms", "Latency of each trial; dashed: the target"),
        table(("trial", "phase", "parallelism", "found"), trials),
        listing(outcome.remarks),
    )


@as_html.register
def _participation(one: Participation) -> str:
    title = f"Critical paths of {one.query}, {seconds(one.seconds)}"
    return box(title, listing(critical.explanation(one)), table(critical.COLUMNS, critical.rows(one)))


def report(outcome: Outcome) -> str:
    """A tuning run as a file that can be opened anywhere."""
    return page(f"Tuning run of {outcome.job.name}", as_html(outcome))


_RUNS = ("parallelism", "latency", "windows")


def _run_row(run: Run) -> tuple[object, ...]:
    return _vector(run.parallelism), _latency(run.latency), run.windows


def _run_words(run: Run) -> str:
    return f"{_vector(run.parallelism)}: {_latency(run.latency)}"


def _sample_row(sample: Sample) -> tuple[object, ...]:
    return _vector(sample.k), _latency(sample.latency), f"{sample.score:.3f}", sample.windows


def _best_words(best: Best) -> str:
    chance = "" if best.probability is None else f", with {likely(best.probability)} probability"
    state = (
        "can be trusted to meet"
        if best.trusted
        else "measured within, not yet trusted"
        if best.met_target
        else "misses"
    )
    return f"{_vector(best.parallelism)}: {_latency(best.latency)}, {state} the target{chance}; score {best.score:.3f}"


def _evaluated(each: Evaluation) -> str:
    return each.verdict.value.replace("-", " ") if each.latency_seconds is None else seconds(each.latency_seconds)


def _latency(latency: float | None) -> str:
    return "failed or fell behind" if latency is None else seconds(latency)


def _vector(ks: Sequence[int]) -> str:
    return f"({', '.join(str(k) for k in ks)})"


def _ms(latency: float | None) -> float | None:
    return None if latency is None else 1000 * latency
