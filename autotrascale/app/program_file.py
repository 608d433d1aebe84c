"""Job file of an adopted program: its latency targets and the number of executors it may have.

Master, arguments and configuration are those of the program's own command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from autotrascale.app.autoscale_section import AutoscaleSection, RateTrace, fill_defaults
from autotrascale.app.job_file_overrides import read_with_overrides
from autotrascale.app.notifications import NotificationTarget
from autotrascale.app.sizes_section import SizesSection
from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Operator, Topology
from autotrascale.monitor.service_latency import Service
from autotrascale.plan.control.autoscaling.autoscaling_plan import PlanningSettings
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.migration.rescale_mode import RescaleMode
from autotrascale.tuning import TuningSettings

# Executors are added and removed without a standstill, so the loop acts more often and for smaller gains than for a job
# that stops to rescale.
DEFAULT_KNOBS = Knobs(interval_seconds=15.0, running_seconds=60.0, scale_down_delay_seconds=600.0)
DEFAULT_PLANNING = PlanningSettings(horizon_seconds=900.0, review_seconds=600.0, worth=0.05)
DEFAULT_AUTOSCALE = AutoscaleSection(rescales_per_day=48)
OPERATOR = "executors"  # a query is planned as a job of one operator, whose instances are executors
MAX_EXECUTORS = 100_000


@dataclass(frozen=True)
class ExecutorBounds:
    """Number of executors that the application may have, for all its queries together."""

    maximum: int  # Most executors.
    minimum: int = 1  # Fewest executors.

    def __post_init__(self) -> None:
        checks.count("minimum", self.minimum)
        checks.count("maximum", self.maximum)
        if self.maximum > MAX_EXECUTORS:
            raise InputError(
                "maximum", f"is above {MAX_EXECUTORS:,}", seen=self.maximum, remedy="give the size of the cluster"
            )
        if self.maximum < self.minimum:
            raise InputError(
                "maximum",
                f"is below the minimum of {self.minimum}",
                seen=self.maximum,
                remedy="raise maximum or lower minimum",
            )


@dataclass(frozen=True)
class ProgramSettings:
    """Section `program:` of a program's job file."""

    executors: ExecutorBounds  # Number of executors that the application may have.
    cores: int | None = None  # Cores of an executor, if they differ from the cluster's answer.
    price: float | None = None  # Price of an executor for one hour, in any currency.
    rescale: RescaleMode = "in-place"  # How state moves to another number of partitions.

    def __post_init__(self) -> None:
        if self.cores is not None:
            checks.count("cores", self.cores)
        checks.optional(checks.non_negative, "price", self.price)


@dataclass(frozen=True)
class QuerySettings:
    """Settings of one query, which override those of the program."""

    target: Target  # Latency target of this query.


@dataclass(frozen=True)
class ProgramFile:
    """Job file of an adopted program."""

    job: str  # Name of the program, under which its decisions and models are kept.
    program: ProgramSettings  # Executors and rescaling.
    target: Target | None = None  # Latency target of all queries; without it, each query's present latency is learned.
    queries: Mapping[str, QuerySettings] = field(default_factory=dict)  # Settings of single queries, by query name.
    manager: Knobs = field(default_factory=Knobs)  # Guards of the control loop.
    autoscale: AutoscaleSection = field(default_factory=AutoscaleSection)  # Planning of the control loop.
    notify: tuple[NotificationTarget, ...] = ()  # Where to post events of the loop.
    services: Mapping[str, Service] = field(
        default_factory=dict
    )  # External services whose latency is watched, by name.
    sizes: SizesSection | None = None  # Executor sizing; with --apply the program is relaunched with other sizes.
    version: Literal[1] = 1  # Version of the file format.

    def __post_init__(self) -> None:
        if not self.job:
            raise InputError("job", "is empty", remedy="name the job")
        if "" in self.queries:
            raise InputError("queries", "has a query without a name", remedy="use the names that the program sets")
        for knob, operator in self.manager.named_operators:
            if operator != OPERATOR:
                raise InputError(
                    f"manager.{knob}",
                    "names an operator that a program does not have",
                    seen=operator,
                    remedy=f"use {OPERATOR}, its only operator",
                )
        if self.autoscale.trace != RateTrace():
            raise InputError("autoscale.trace", "applies to simulated jobs only", remedy="remove it")

    @property
    def tuning(self) -> TuningSettings:
        """Settings of tuning, which a program's file cannot change."""
        return TuningSettings()

    def with_defaults(self) -> ProgramFile:
        """Return the file with the defaults of a program's control loop."""
        planning = fill_defaults(self.autoscale.planning, DEFAULT_PLANNING)
        autoscale = replace(fill_defaults(self.autoscale, DEFAULT_AUTOSCALE), planning=planning)
        return replace(self, manager=fill_defaults(self.manager, DEFAULT_KNOBS), autoscale=autoscale)

    def target_for(self, query: str) -> Target | None:
        """Return the query's own target, else the target of all queries, else None."""
        settings = self.queries.get(query)
        return self.target if settings is None else settings.target

    def with_target(self, target: Target, query: str = "") -> ProgramFile:
        """Return the file with a target for `query`, or for all queries without a target of their own."""
        if not query:
            return replace(self, target=target)
        return replace(self, queries={**self.queries, query: QuerySettings(target)})

    def query_job(self, query: str, target: Target, rate: float = 0.0) -> Job:
        """Return one query as a job of one operator, with `rate` in records/s."""
        bounds = self.program.executors
        topology = Topology({OPERATOR: Operator(minimum=bounds.minimum)})
        name = f"{self.job}.{query}" if query else self.job
        return Job(name, topology, bounds.maximum, {OPERATOR: rate}, target)


def read_program_file(path: Path) -> ProgramFile:
    """Return the job file at `path`, with the overrides of the environment."""
    return read_with_overrides(path, ProgramFile)


def render_program_file(file: ProgramFile, comments: Mapping[str, str] | None = None) -> str:
    """Return YAML from which `read_program_file` reads an equal file. Values at their default are omitted.

    Args:
        file: the job file.
        comments: text to write above a section, by the section's name.
    """
    data = {"version": file.version, **_changed_values(file)}
    parts = []
    for name, value in data.items():
        if comment := (comments or {}).get(name):
            parts.append("".join(f"# {line}\n" for line in comment.splitlines()))
        flow_style = None if isinstance(value, dict) else False  # None: innermost collections in one line
        parts.append(_dump_yaml({name: value}, flow_style))
    return "".join(parts)


def _dump_yaml(data: dict[str, Any], flow_style: bool | None) -> str:
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=flow_style)
    if text.replace("\n", "").isprintable():
        return text
    # YAML reads some unprintable characters back as others, so they are escaped.
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=False, default_flow_style=flow_style)


def _changed_values(value: Any) -> Any:
    """Return plain data for YAML, with only those fields of a dataclass that differ from their default."""
    if isinstance(value, Mapping):
        return {name: _changed_values(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_changed_values(each) for each in value]
    if not is_dataclass(value):
        return value
    changed = {}
    for each in fields(value):
        held = getattr(value, each.name)
        default = each.default_factory() if callable(each.default_factory) else each.default
        if held != default:
            changed[each.name] = _changed_values(held)
    return changed
