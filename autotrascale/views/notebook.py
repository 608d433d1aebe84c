"""Studies, runs, models and decisions as HTML for notebooks, and a tuning run as a page for MLflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

from autotrascale.domain.critical_path_report import CriticalPathReport
from autotrascale.domain.decision import Decision
from autotrascale.plan.formatting import format_amount, format_seconds
from autotrascale.plan.search.ask_tell import AskTellStudy
from autotrascale.plan.search.benefit_model import BenefitModel, ModelSample
from autotrascale.plan.search.study_runs import Best, Run
from autotrascale.tuning import Evaluation, Outcome
from autotrascale.views import critical_path_text
from autotrascale.views.explanation import explain_operators, format_parallelism, format_probability
from autotrascale.views.html_fragments import (
    ChartPoint,
    render_box,
    render_chart,
    render_document,
    render_line,
    render_list,
    render_table,
)
from autotrascale.views.verdict import summarize_outcome

_ENDED: Mapping[str | None, str] = {
    None: "the search continues",
    "target-met": "finished: the target is met, and confirmed",
    "rule-unsatisfiable": "finished: the target needs more than the over-allocation allows",
    "exhausted": "finished: every configuration was run",
    "budget": "finished: the budget of runs is used up",
}


@singledispatch
def as_html(value: object) -> str:
    """Return a value as HTML. Raises `TypeError` for other types."""
    raise TypeError(f"{type(value).__name__} has no HTML form")


@as_html.register
def _study(study: AskTellStudy) -> str:
    target = study.benefit.latency_target
    title = f"Study: latency target {format_seconds(target)}, {len(study.runs)} of at most {study.max_runs} runs"
    bounds = f"between floor {_vector(study.lattice.lower)} and P_max {_vector(study.lattice.upper)}"
    if not study.runs:
        return render_box(title, render_line(f"{bounds}; no result yet"))
    answer = study.answer
    points = [
        ChartPoint(i, _ms(run.latency), _run_words(run), run.parallelism == answer.parallelism)
        for i, run in enumerate(study.runs, 1)
    ]
    strong = next(i for i, run in enumerate(study.runs) if run.parallelism == answer.parallelism)
    return render_box(
        title,
        render_line(f"{bounds}; {_ENDED.get(study.stop_reason, study.stop_reason or '')}"),
        render_line(_best_words(answer)),
        render_chart(points, 1000 * target, "ms", "Latency of each run; dashed: the target"),
        render_table(_RUNS, [_run_row(run) for run in study.runs], strong),
        render_list(study.remarks),
    )


@as_html.register
def _best(best: Best) -> str:
    return render_box("The configuration to use", render_line(_best_words(best)))


@as_html.register
def _run(run: Run) -> str:
    return render_box("A run", render_table(_RUNS, [_run_row(run)]))


@as_html.register
def _model(model: BenefitModel) -> str:
    others = sorted({ancestor.rate for ancestor in model.ancestors})
    beside = (
        f", trained together with runs at {', '.join(f'{format_amount(rate)}/s' for rate in others)}" if others else ""
    )
    rate, target = format_amount(model.rate), format_seconds(model.latency_target)
    return render_box(
        f"Benefit model at {rate} records/s, latency target {target}",
        render_line(f"floor {_vector(model.floor)}, P_max {_vector(model.p_max)}{beside}"),
        render_table(
            ("parallelism", "latency", "benefit score", "windows"), [_sample_row(each) for each in model.samples]
        ),
    )


@as_html.register
def _decision(decision: Decision) -> str:
    kind = "no decision, on hold" if decision.hold else "a change" if decision.changed else "no change"
    return render_box(
        f"Decision of {decision.policy}: {kind}",
        render_table(("operator", "parallelism"), list(decision.parallelism.items())),
        render_list(reason.text for reason in decision.reasons),
    )


@as_html.register
def _outcome(outcome: Outcome) -> str:
    simulated = " (simulated)" if outcome.simulated else ""
    best = outcome.best.parallelism
    points = [
        ChartPoint(
            each.number,
            _ms(each.latency_seconds),
            f"{format_parallelism(each.parallelism)}: {_format_result(each)}",
            each.parallelism == best,
        )
        for each in outcome.evaluations
    ]
    upper = dict(zip(outcome.job.topology, outcome.job.upper, strict=True))
    rows = [(each.operator, each.k, each.floor, upper[each.operator], each.text) for each in explain_operators(outcome)]
    trials = [
        (each.number, each.phase, format_parallelism(each.parallelism), _format_result(each))
        for each in outcome.evaluations
    ]
    return render_box(
        f"Tuning run of {outcome.job.name}{simulated} at {format_amount(outcome.job.rate)} records/s",
        render_line(summarize_outcome(outcome)),
        render_table(("operator", "chosen" if outcome.met_target else "nearest miss", "floor", "P_max", "why"), rows),
        render_chart(
            points, 1000 * outcome.job.target.latency_seconds, "ms", "Latency of each trial; dashed: the target"
        ),
        render_table(("trial", "phase", "parallelism", "result"), trials),
        render_list(outcome.remarks),
    )


@as_html.register
def _participation(one: CriticalPathReport) -> str:
    title = f"Critical paths of {one.query}, {format_seconds(one.seconds)}"
    return render_box(
        title,
        render_list(critical_path_text.explain_participation(one)),
        render_table(critical_path_text.COLUMNS, critical_path_text.participation_rows(one)),
    )


def install_html_reprs() -> None:
    """Let notebooks show the classes that `as_html` knows: give each class a `_repr_html_` method."""
    for kind in as_html.registry:
        if kind is not object:
            kind._repr_html_ = lambda self: as_html(self)


def render_report(outcome: Outcome) -> str:
    """Return a tuning run as a whole HTML document."""
    return render_document(f"Tuning run of {outcome.job.name}", as_html(outcome))


_RUNS = ("parallelism", "latency", "windows")


def _run_row(run: Run) -> tuple[object, ...]:
    return _vector(run.parallelism), _latency(run.latency), run.windows


def _run_words(run: Run) -> str:
    return f"{_vector(run.parallelism)}: {_latency(run.latency)}"


def _sample_row(sample: ModelSample) -> tuple[object, ...]:
    return _vector(sample.k), _latency(sample.latency), f"{sample.score:.3f}", sample.windows


def _best_words(best: Best) -> str:
    chance = "" if best.probability is None else f", probability {format_probability(best.probability)}"
    state = "target met" if best.trusted else "within the target, not confirmed" if best.met_target else "target missed"
    return f"{_vector(best.parallelism)}: {_latency(best.latency)}, {state}{chance}; score {best.score:.3f}"


def _format_result(each: Evaluation) -> str:
    return (
        each.verdict.value.replace("-", " ") if each.latency_seconds is None else format_seconds(each.latency_seconds)
    )


def _latency(latency: float | None) -> str:
    return "failed or fell behind" if latency is None else format_seconds(latency)


def _vector(ks: Sequence[int]) -> str:
    return f"({', '.join(str(k) for k in ks)})"


def _ms(latency: float | None) -> float | None:
    return None if latency is None else 1000 * latency
