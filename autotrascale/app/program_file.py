"""The job file of a program that is adopted: what is wanted of it, and how many executors it may have. How it runs is
its own affair: its master, its arguments and its settings are those that it is started with."""

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

# Executors come and go without a standstill: a program is changed more often and for less than a job that stops.
DEFAULT_KNOBS = Knobs(interval_seconds=15.0, running_seconds=60.0, scale_down_delay_seconds=600.0)
DEFAULT_PLANNING = PlanningSettings(horizon_seconds=900.0, review_seconds=600.0, worth=0.05)
DEFAULT_AUTOSCALE = AutoscaleSection(rescales_per_day=48)
OPERATOR = "executors"  # the only one that a program is measured by
MAX_EXECUTORS = 100_000


@dataclass(frozen=True)
class ExecutorBounds:
    """How many the application may have, all its queries together."""

    maximum: int
    minimum: int = 1

    def __post_init__(self) -> None:
        checks.count("minimum", self.minimum)
        checks.count("maximum", self.maximum)
        if self.maximum > MAX_EXECUTORS:
            raise InputError(
                "maximum",
                f"is above {MAX_EXECUTORS:,}, more than any cluster has",
                seen=self.maximum,
                remedy="give what yours has",
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
    """The `program:` section. `cores` of one executor, where it shall be another number than the cluster gives; `price`
    of an executor for an hour, in whatever money; `rescale`: whether another query may be made ready while one runs on,
    and take over from it."""

    executors: ExecutorBounds
    cores: int | None = None
    price: float | None = None
    rescale: RescaleMode = "in-place"

    def __post_init__(self) -> None:
        if self.cores is not None:
            checks.count("cores", self.cores)
        checks.optional(checks.non_negative, "price", self.price)


@dataclass(frozen=True)
class QuerySettings:
    """What is wanted of one query of the program, where it is not what is wanted of all."""

    target: Target


@dataclass(frozen=True)
class ProgramFile:
    """Without a `target` it is learned from what the program holds, for each query that `queries` does not name."""

    job: str
    program: ProgramSettings
    target: Target | None = None
    queries: Mapping[str, QuerySettings] = field(default_factory=dict)
    manager: Knobs = field(default_factory=Knobs)
    autoscale: AutoscaleSection = field(default_factory=AutoscaleSection)
    notify: tuple[NotificationTarget, ...] = ()
    services: Mapping[str, Service] = field(default_factory=dict)
    sizes: SizesSection | None = None  # given: with --apply it is relaunched when its executors are of a wrong size
    version: Literal[1] = 1

    def __post_init__(self) -> None:
        if not self.job:
            raise InputError("job", "is empty", remedy="name the job")
        if "" in self.queries:
            raise InputError("queries", "name a query that has no name", remedy="use the names that the program gives")
        for knob, operator in self.manager.named_operators:
            if operator != OPERATOR:
                raise InputError(
                    f"manager.{knob}",
                    "names an operator that a program does not have",
                    seen=operator,
                    remedy=f"use {OPERATOR}: it is the only one",
                )
        if self.autoscale.trace != RateTrace():
            raise InputError(
                "autoscale.trace", "is the input of a simulated job, and a program has its own", remedy="remove it"
            )

    @property
    def tuning(self) -> TuningSettings:
        """Nothing of it is for a program to choose."""
        return TuningSettings()

    def filled_in(self) -> ProgramFile:
        """As its loops take it: what the file leaves open is as it usually is for a program."""
        planning = fill_defaults(self.autoscale.planning, DEFAULT_PLANNING)
        autoscale = replace(fill_defaults(self.autoscale, DEFAULT_AUTOSCALE), planning=planning)
        return replace(self, manager=fill_defaults(self.manager, DEFAULT_KNOBS), autoscale=autoscale)

    def target_of(self, query: str) -> Target | None:
        """The query's own, else the one for all, if any."""
        wishes = self.queries.get(query)
        return self.target if wishes is None else wishes.target

    def aiming_at(self, target: Target, query: str = "") -> ProgramFile:
        """With this target for one query, or for all that have none of their own."""
        if not query:
            return replace(self, target=target)
        return replace(self, queries={**self.queries, query: QuerySettings(target)})

    def of_query(self, name: str, target: Target, rate: float = 0.0) -> Job:
        """One query of the program, as a job of one operator."""
        bounds = self.program.executors
        topology = Topology({OPERATOR: Operator(minimum=bounds.minimum)})
        return Job(f"{self.job}.{name}" if name else self.job, topology, bounds.maximum, {OPERATOR: rate}, target)


def read_program_file(path: Path) -> ProgramFile:
    return read_with_overrides(path, ProgramFile)


def render_program_file(file: ProgramFile, remarks: Mapping[str, str] | None = None) -> str:
    """The YAML that `read_program_file` reads as the same again; what stands at its default is left out. `remarks` are
    comments before sections, such as where a target comes from."""
    data = {"version": file.version, **_plain(file)}
    parts = []
    for name, value in data.items():
        if said := (remarks or {}).get(name):
            parts.append("".join(f"# {line}\n" for line in said.splitlines()))
        lines = None if isinstance(value, dict) else False  # what is innermost in one line
        parts.append(_dumped({name: value}, lines))
    return "".join(parts)


def _dumped(data: dict[str, Any], flow: bool | None) -> str:
    """YAML writes some characters as they are and reads them as something else: those are written by their numbers."""
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=flow)
    if text.replace("\n", "").isprintable():
        return text
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=False, default_flow_style=flow)


def _plain(value: Any) -> Any:
    """Of a dataclass the fields that differ from their defaults."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if not is_dataclass(value):
        return value
    found = {}
    for each in fields(value):
        held = getattr(value, each.name)
        usual = each.default_factory() if callable(each.default_factory) else each.default
        if held != usual:
            found[each.name] = _plain(held)
    return found
