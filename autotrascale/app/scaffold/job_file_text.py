"""Text of a job file, with a comment for each key that a newcomer may want to change."""

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

TARGET_MARGIN = 1.5  # multiple of the batch duration for a first latency target


@dataclass(frozen=True)
class JobGoals:
    """Goals that only the user knows.

    Args:
        name: name of the job.
        rates: records/s by source.
        target_seconds: latency target.
        p_max: most instances of an operator.
    """

    name: str
    rates: Mapping[str, float]
    target_seconds: float
    p_max: int


def render_job(job: ScriptJob, goals: JobGoals, file: str, assumed: Sequence[str]) -> str:
    """Return the job file of a PySpark job.

    Args:
        job: the job.
        goals: the user's goals.
        file: path of the job file, for the commands in its comments.
        assumed: options whose default was used.
    """
    lines = [
        f"# How AuTraScale tunes the job {job.reference}. docs/reference/configuration.md describes all keys.",
        f"#   check this machine   autotrascale doctor --job {file}",
        f"#   tune the job         autotrascale tune {file}",
        *_list_assumed(assumed),
        *_render_goals(goals),
        "tuning:",
        "  total_trials: 20   # limit for trials; each takes some tens of seconds",
        "spark:",
        f"  job: {_to_yaml(job.reference)}",
        *([] if job.path.parent.samefile(".") else [f"  python_path: {_to_yaml([str(job.path.parent)])}"]),
        *_render_options(job),
        f"  master: local[{goals.p_max}]   # or spark://host:port, yarn, k8s://…",
        "  # Sink of trials: discard (count and drop), scratch (temporary files) or real (the job's own sink).",
        "  sink: discard",
        "  # driver_memory: 1g",
    ]
    return _join(lines)


def render_simulated_job(operators: Sequence[str], goals: JobGoals, file: str, assumed: Sequence[str]) -> str:
    """Return the job file of a simulated chain. A quarter of the rate keeps one instance of an operator busy."""
    service, hop = 4 / sum(goals.rates.values()), goals.target_seconds / (4 * len(operators))
    chain = [
        f"  {_to_yaml(name)}: {_to_yaml({'upstream': [operators[i - 1]]} if i else {})}"
        for i, name in enumerate(operators)
    ]
    behaviour = f"{{service_seconds: {_to_short_yaml(service)}, hop_seconds: {_to_short_yaml(hop)}, coherency: 0.005}}"
    lines = [
        "# A simulated job, for first steps: all its figures are simulated. The file of a real job has a section",
        "# `spark:` instead of `simulator:` (autotrascale init --script my_app.py).",
        f"#   tune the job             autotrascale tune {file}",
        f"#   scale it for one day     autotrascale autoscale {file}",
        *_list_assumed(assumed),
        *_render_goals(goals),
        "tuning:",
        "  total_trials: 20   # limit for trials",
        "# Dataflow graph: the operators that each operator reads from. Operators that aggregate, join or deduplicate",
        "# are `stateful: true`.",
        "operators:",
        *chain,
        "# Behaviour of the job, which the tuner does not know.",
        "simulator:",
        "  operators:",
        *(f"    {_to_yaml(name)}: {behaviour}" for name in operators),
        "  noise: 0.05   # relative standard deviation of a measurement",
    ]
    return _join(lines)


def render_program(
    file: ProgramFile, path: str, command: str, queries: Iterable[str], facts: ApplicationFacts | None
) -> str:
    """Return the job file of an adopted program.

    Args:
        file: the keys of the file.
        path: path of the file, for the commands in its comments.
        command: command line of the program.
        queries: names of its queries.
        facts: facts from its event log, if there is one.
    """
    head = [
        f"# How AuTraScale scales the program {file.job}. docs/reference/configuration.md describes all keys.",
        f"#   show recommendations   autotrascale run {path} -- {command}",
        f"#   scale the program      autotrascale run --apply {path} -- {command}",
        *(f"# {line}" for line in (_describe_facts(facts) if facts else ())),
    ]
    price = ["# Price of an executor for one hour, under program:   price: 0.20"]
    target = [
        "# Without a target, the present latency of each query is learned as its target. To set one:",
        "# target: {latency_seconds: 5.0}",
    ]
    tail = [
        *([] if file.program.price is not None else price),
        *([] if file.target else target),
        *_render_queries(queries),
    ]
    comments = {
        "program": "Number of executors for all queries together.",
        "target": "Latency target of every query without a target of its own.",
    }
    return _join(head) + render_program_file(file, comments) + _join(tail)


def estimate_target(facts: ApplicationFacts) -> Target | None:
    """Return a first latency target: half as long again as the median batch of the slowest query."""
    durations = [query.batch_seconds for query in facts.queries.values() if query.batch_seconds is not None]
    return Target(float(f"{TARGET_MARGIN * max(durations):.2g}")) if durations else None


def _render_goals(goals: JobGoals) -> list[str]:
    rates = [f"  {_to_yaml(name)}: {_to_yaml(float(rate))}" for name, rate in goals.rates.items()]
    return [
        "version: 1",
        f"job: {_to_yaml(goals.name)}   # name under which runs and models are kept",
        f"p_max: {goals.p_max}   # most instances of an operator: the slots that the job may use",
        "source_rates:   # input rate to sustain, records per second",
        *rates,
        "target:",
        f"  latency_seconds: {_to_yaml(float(goals.target_seconds))}   # seconds from input to output of a record",
        "  # statistic: p95   # mean (default), p50, p95 or p99 of a window",
    ]


def _render_options(job: ScriptJob) -> list[str]:
    """Return the options of the job: those without a default must be set, the others are comments."""
    if not job.options:
        return []
    has_required = any(value is None for value in job.options.values())
    comment = "" if has_required else "# "
    lines = [f"  {comment}options:   # of the job's function"]
    for name, value in job.options.items():
        remark = "   # has no default: set it" if value is None else ""
        lines.append(f"  {comment if value is None else '# '}  {name}: {_to_yaml(value)}{remark}")
    return lines


def _render_queries(names: Iterable[str]) -> list[str]:
    lines = [f"#   {_to_yaml(name)}: {{target: {{latency_seconds: 5.0}}}}" for name in names]
    return ["# Targets of single queries:", "# queries:", *lines] if lines else []


def _list_assumed(assumed: Sequence[str]) -> list[str]:
    return [f"# Not given: {', '.join(assumed)}. Check the default values below."] if assumed else []


def _describe_facts(facts: ApplicationFacts) -> list[str]:
    plural = "" if facts.executors == 1 else "s"
    executors = f"{facts.executors} executor{plural} of {facts.cores} cores" if facts.executors else "executors unknown"
    return [
        f"Its event log: {executors}{f', master {facts.master}' if facts.master else ''}.",
        *(_describe_query(query) for query in facts.queries.values()),
    ]


def _describe_query(query: QueryFacts) -> str:
    rate = "unknown rate" if query.rate is None else f"{format_amount(query.rate)} records/s"
    duration = "unknown duration" if query.batch_seconds is None else format_seconds(query.batch_seconds)
    return f"  query {' '.join(query.name.split())}: {rate}, {query.batches} batches, median {duration}"


def _to_yaml(value: object) -> str:
    """Return YAML in one line. JSON, which is YAML too, replaces text with characters that YAML would change."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    text = text.removesuffix("\n").removesuffix("...").removesuffix("\n")
    return text if text.isprintable() else json.dumps(value)


def _to_short_yaml(number: float) -> str:
    return _to_yaml(float(f"{number:.6g}"))  # via float: YAML would read 4e-06 as text


def _join(lines: Iterable[str]) -> str:
    # A name or path may hold line breaks, which would end a comment.
    return "".join("".join(c if c.isprintable() else " " for c in line) + "\n" for line in lines)
