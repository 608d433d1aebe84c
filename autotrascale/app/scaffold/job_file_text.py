"""The text of a job file, with a comment for each thing that a newcomer may want to change. What is said is checked by
the reader of job files before it is written anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from autotrascale.app.program_file import ProgramFile, render_program_file
from autotrascale.app.scaffold.read_script import ScriptJob
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_amount, format_seconds

if TYPE_CHECKING:
    from autotrascale.app.scaffold.event_log_facts import ApplicationFacts, QueryFacts

_MARGIN = 1.5  # a target that a query which holds its rate now holds easily


@dataclass(frozen=True)
class JobGoals:
    """What nobody but the user knows of a job."""

    name: str
    rates: Mapping[str, float]
    target_seconds: float
    p_max: int


def render_job(job: ScriptJob, wishes: JobGoals, file: str, assumed: Sequence[str]) -> str:
    """Of a PySpark job under `@job`."""
    lines = [
        f"# How AuTraScale tunes the job {job.reference}. What every setting means: docs/own-job.md.",
        f"#   is all there that it needs?   autotrascale doctor --job {file}",
        f"#   tune it                       autotrascale tune {file}",
        *_to_check(assumed),
        *_head(wishes),
        "tuning:",
        "  total_trials: 20   # the most that are run; each takes some tens of seconds",
        "spark:",
        f"  job: {_value(job.reference)}",
        *([] if job.path.parent.samefile(".") else [f"  python_path: {_value([str(job.path.parent)])}"]),
        *_options(job),
        f"  master: local[{wishes.p_max}]   # or spark://host:port, yarn, k8s://…",
        "  # Where the output of trials goes: discard (counted and dropped), scratch (files of the trial's own), real.",
        "  sink: discard",
        "  # driver_memory: 1g",
    ]
    return _joined(lines)


def render_simulated_job(operators: Sequence[str], wishes: JobGoals, file: str, assumed: Sequence[str]) -> str:
    """A chain of operators, each of which a quarter of the rate keeps one instance busy."""
    service, hop = 4 / sum(wishes.rates.values()), wishes.target_seconds / (4 * len(operators))
    chain = [
        f"  {_value(name)}: {_value({'upstream': [operators[i - 1]]} if i else {})}" for i, name in enumerate(operators)
    ]
    lines = [
        "# A simulated job, to try things on: every figure of it is simulated. A job of yours has a section `spark:`",
        "# instead of `simulator:` (autotrascale init --script my_app.py).",
        f"#   tune it                        autotrascale tune {file}",
        f"#   keep it at its target a day    autotrascale autoscale {file}",
        *_to_check(assumed),
        *_head(wishes),
        "tuning:",
        "  total_trials: 20   # the most that are run",
        "# The graph: what each operator reads from. `stateful: true` where it aggregates, joins or deduplicates.",
        "operators:",
        *chain,
        "# How it behaves, which the tuner is not told.",
        "simulator:",
        "  operators:",
        *(
            f"    {_value(name)}: {{service_seconds: {_short(service)}, hop_seconds: {_short(hop)}, coherency: 0.005}}"
            for name in operators
        ),
        "  noise: 0.05   # of a reading",
    ]
    return _joined(lines)


def render_program(
    file: ProgramFile, path: str, command: str, queries: Iterable[str], seen: ApplicationFacts | None
) -> str:
    """Of a program that is kept as it is; `seen`: what its event log told."""
    head = [
        f"# How AuTraScale keeps the program {file.job}, which stays as it is. What is meant: docs/adopting.md.",
        f"#   what it would do    autotrascale run {path} -- {command}",
        f"#   let it do that      autotrascale run --apply {path} -- {command}",
        *(f"# {line}" for line in (_told(seen) if seen else ())),
    ]
    tail = [
        *(
            []
            if file.program.price is not None
            else ["# Of an executor for an hour, to see what is saved in money, under program:  price: 0.20"]
        ),
        *(
            []
            if file.target
            else [
                "# Without a target, the latency that each query holds is learned and kept. To say it yourself:",
                "# target: {latency_seconds: 5.0}",
            ]
        ),
        *_of_queries(queries),
    ]
    remarks = {
        "program": "How many executors it may have, all its queries together.",
        "target": "Of every query that has none of its own: each record through in so many seconds.",
    }
    return _joined(head) + render_program_file(file, remarks) + _joined(tail)


def estimate_target(seen: ApplicationFacts) -> Target | None:
    """For a beginning: half as long again as the slowest query's middle batch took."""
    took = [query.batch_seconds for query in seen.queries.values() if query.batch_seconds is not None]
    return Target(float(f"{_MARGIN * max(took):.2g}")) if took else None


def _head(wishes: JobGoals) -> list[str]:
    rates = [f"  {_value(name)}: {_value(float(rate))}" for name, rate in wishes.rates.items()]
    return [
        "version: 1",
        f"job: {_value(wishes.name)}   # the name under which its runs and models are kept",
        f"p_max: {wishes.p_max}   # the most instances of an operator: the slots that the job may use",
        "source_rates:   # records per second that it shall hold",
        *rates,
        "target:",
        f"  latency_seconds: {_value(float(wishes.target_seconds))}   # each record through in so many seconds",
        "  # statistic: p95   # of a window's latencies; the mean where nothing is said",
    ]


def _options(job: ScriptJob) -> list[str]:
    """Those that have no value of their own must be set; the others show what they are."""
    if not job.options:
        return []
    unset = any(value is None for value in job.options.values())
    mark = "" if unset else "# "
    found = [f"  {mark}options:   # the job's own, as its function declares them"]
    for name, value in job.options.items():
        to_set = "   # has no default: set it" if value is None else ""
        found.append(f"  {mark if value is None else '# '}  {name}: {_value(value)}{to_set}")
    return found


def _of_queries(names: Iterable[str]) -> list[str]:
    named = list(names)
    if not named:
        return []
    return [
        "# One query may have a target of its own:",
        "# queries:",
        *(f"#   {_value(name)}: {{target: {{latency_seconds: 5.0}}}}" for name in named),
    ]


def _to_check(assumed: Sequence[str]) -> list[str]:
    return [f"# Nobody said {', '.join(assumed)}: what stands here is the usual. Check it."] if assumed else []


def _told(seen: ApplicationFacts) -> list[str]:
    many = "" if seen.executors == 1 else "s"
    what = f"{seen.executors} executor{many} of {seen.cores} cores" if seen.executors else "executors unknown"
    return [
        f"Its event log: {what}{f', master {seen.master}' if seen.master else ''}.",
        *(_of_query(query) for query in seen.queries.values()),
    ]


def _of_query(query: QueryFacts) -> str:
    rate = "an unknown rate" if query.rate is None else f"{format_amount(query.rate)} records/s"
    took = "of unknown length" if query.batch_seconds is None else f"of {format_seconds(query.batch_seconds)}"
    return f"  query {' '.join(query.name.split())}: {rate}, {query.batches} batches {took}"


def _value(value: object) -> str:
    """As YAML reads it again, in one line: JSON is YAML too, where YAML itself would take several."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    text = text.removesuffix("\n").removesuffix("...").removesuffix("\n")
    return text if text.isprintable() else json.dumps(value)


def _short(number: float) -> str:
    """Six digits say enough; written as YAML has numbers, to which 4e-06 is a word."""
    return _value(float(f"{number:.6g}"))


def _joined(lines: Iterable[str]) -> str:
    """Whatever a name or a path holds, a comment ends with its line, and YAML takes it."""
    return "".join("".join(c if c.isprintable() else " " for c in line) + "\n" for line in lines)
