"""`autotrascale tune`: one tuning run at one input rate, on real Spark or on the simulator."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.service.output import Format, FormatOption, emit, note, say, table

if TYPE_CHECKING:
    from autotrascale.tuning import Outcome, Progress

TARGET_NOT_MET = 3


class EngineChoice(StrEnum):
    spark = "spark"
    simulator = "simulator"


def tune(
    job_file: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")],
    engine: Annotated[
        EngineChoice | None, typer.Option(help="What runs the job; else what the file describes.")
    ] = None,
    rate: Annotated[float | None, typer.Option(metavar="R", help="Records per second, all sources together.")] = None,
    total_trials: Annotated[int | None, typer.Option(metavar="N", help="Trials in all, the floor's included.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Seed of the search and of a simulated job.")] = None,
    warm_start: Annotated[
        str, typer.Option(metavar="auto|none|MODEL", help="Benefit models to start from: a file of one, auto, none.")
    ] = "auto",
    save_model: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to put the benefit model.")] = None,
    form: FormatOption = Format.table,
) -> None:
    """Find the least parallelism that holds the latency target at one input rate."""
    from autotrascale.domain.errors import InputError
    from autotrascale.service.decide import read_model
    from autotrascale.service.jobfile import read_job_file
    from autotrascale.tuning import tune as run

    file = read_job_file(job_file)
    given: dict[str, Any] = {"total_trials": total_trials, "seed": seed}
    settings = replace(file.tuning, **{name: value for name, value in given.items() if value is not None})
    name = file.engine_name(None if engine is None else engine.value)
    sources = [] if warm_start in ("auto", "none") else [read_model(Path(warm_start))]
    if save_model is not None and not save_model.resolve().parent.is_dir():
        raise InputError("--save-model", "is in a folder that does not exist", seen=str(save_model), remedy="make it")
    job, opened = file.open(name, settings.seed)
    with opened:
        job = job if rate is None else job.at_rate(rate)
        if form is Format.table:
            note(_opening(job.name, job.rate, job.target.latency_seconds, opened.simulated))
        outcome = run(job, opened, settings, sources=sources, report=_line)
    if save_model is not None and outcome.model is not None:
        _write(save_model, outcome.model.to_json())
    emit(form, _answer(outcome), lambda: _show(outcome))
    if not outcome.met_target:
        raise typer.Exit(TARGET_NOT_MET)


def register(app: typer.Typer) -> None:
    app.command("tune")(tune)


def _opening(name: str, rate: float, target: float, simulated: bool) -> str:
    from autotrascale.plan.words import amount
    from autotrascale.views.explanation import seconds

    what = "a simulated job: every figure below is simulated" if simulated else "a real Spark job"
    return f"tuning {name}, {what}; {amount(rate)} records/s, latency target {seconds(target)}"


def _line(progress: Progress) -> None:
    """One line for each finished trial; on a terminal the one under way is shown too, and overwritten."""
    from autotrascale.views.progress import after, before

    if progress.done is not None:
        _print_over(after(progress), end="\n")
    elif sys.stderr.isatty():
        _print_over(before(progress), end="")


def _print_over(text: str, end: str) -> None:
    start = "\r\x1b[2K" if sys.stderr.isatty() else ""
    print(start + text, end=end, file=sys.stderr, flush=True)


def _answer(outcome: Outcome) -> dict[str, Any]:
    best = outcome.best
    return {
        "job": outcome.job.name,
        "run_id": None,
        "rate": outcome.job.rate,
        "simulated": outcome.simulated,
        "floor": dict(outcome.floor),
        "best": {
            "parallelism": dict(best.parallelism),
            "latency_seconds": best.latency_seconds,
            "throughput": best.throughput,
            "score": best.score,
        },
        "met_target": outcome.met_target,
        "evaluations": len(outcome.evaluations),
        "stop_reason": outcome.stop_reason,
    }


def _show(outcome: Outcome) -> None:
    from autotrascale.views.explanation import summary, why

    answers = why(outcome)
    top = max(len(each.operator) for each in answers)
    table(("operator", "chosen", "floor", "P_max"),
          [(w.operator, w.k, w.floor, u) for w, u in zip(answers, outcome.job.upper, strict=True)])  # fmt: skip
    for each in answers:
        say(f"  {each.operator:<{top}} {each.k}: {each.text}")
    for remark in outcome.remarks:
        say(f"  note: {remark}")
    say()
    say(summary(outcome))


def _write(path: Path, text: str) -> None:
    """The whole file or none of it."""
    partial = path.with_name(path.name + ".part")
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(path)
