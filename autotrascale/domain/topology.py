"""The dataflow graph G = (V, E): operators and the streams between them, acyclic, several sources allowed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError


@dataclass(frozen=True)
class Operator:
    """An operator as its job declares it.

    Args:
        upstream: names of the operators that it reads from; empty for a source.
        stateful: the operator keeps state, default False.
        minimum: least instances, at least 1, default 1.
        maximum: most instances, at least `minimum`; default: P_max of the job.

    Raises:
        InputError: a bound is not a whole number of at least 1, or `maximum` is below `minimum`.
    """

    upstream: tuple[str, ...] = ()
    stateful: bool = False
    minimum: int = 1
    maximum: int | None = None

    def __post_init__(self) -> None:
        checks.count("minimum", self.minimum)
        if self.maximum is not None:
            checks.count("maximum", self.maximum)
            if self.maximum < self.minimum:
                remedy = "raise maximum or lower minimum"
                raise InputError("maximum", f"is below the minimum of {self.minimum}", seen=self.maximum, remedy=remedy)


@dataclass(frozen=True)
class Topology:
    """Operators by name. The order in which the job names them is the order of every vector k."""

    operators: Mapping[str, Operator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.operators:
            raise InputError("operators", "is empty", remedy="name at least one operator")
        for name, operator in self.operators.items():
            place = f"operators.{name}.upstream"
            for upstream in operator.upstream:
                if upstream not in self.operators:
                    remedy = f"use one of {', '.join(self.operators)}"
                    raise InputError(place, "names an operator that does not exist", seen=upstream, remedy=remedy)
            if len(set(operator.upstream)) != len(operator.upstream):
                raise InputError(
                    place, "names an operator twice", seen=list(operator.upstream), remedy="name each upstream once"
                )
        self.order  # noqa: B018 - refuses a cycle

    @classmethod
    def chain(cls, *names: str) -> Topology:
        """Return operators that each read from the previous one: `Topology.chain("source", "flatmap", "sink")`."""
        return cls({name: Operator(upstream=names[max(i - 1, 0) : i]) for i, name in enumerate(names)})

    def __iter__(self) -> Iterator[str]:
        return iter(self.operators)

    def __len__(self) -> int:
        return len(self.operators)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Names of the operators, every upstream before its downstreams, as DS2 §3.2 walks the graph."""
        graph = {name: operator.upstream for name, operator in self.operators.items()}
        try:
            return tuple(TopologicalSorter(graph).static_order())
        except CycleError as error:
            cycle = " → ".join(reversed(error.args[1]))
            raise InputError(
                "operators", "form a cycle", seen=cycle, remedy="break it: a stream may not feed itself"
            ) from None

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Names of the operators without upstreams."""
        return tuple(name for name, operator in self.operators.items() if not operator.upstream)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the graph's shape: a model of one shape must not be used for another."""
        shape = [[name, sorted(operator.upstream)] for name, operator in sorted(self.operators.items())]
        return hashlib.sha256(json.dumps(shape).encode()).hexdigest()[:12]

    def at_least(self, floors: Mapping[str, int], p_max: int) -> Topology:
        """Return this topology with minimum instances raised to `floors`, but not above an operator's maximum.

        A source with a given number of partitions, for instance, cannot have fewer instances.
        """
        raised = {
            name: replace(each, minimum=max(each.minimum, min(floors[name], each.maximum or p_max, p_max)))
            if name in floors
            else each
            for name, each in self.operators.items()
        }
        return Topology(raised)

    def vector(self, parallelism: Mapping[str, int]) -> tuple[int, ...]:
        """Return the vector k of a parallelism by name."""
        return tuple(parallelism[name] for name in self.operators)

    def named(self, k: tuple[int, ...]) -> dict[str, int]:
        """Return the parallelism by name of a vector k."""
        return dict(zip(self.operators, k, strict=True))


def check_parallelism(topology: Topology, parallelism: Mapping[str, int], p_max: int) -> None:
    """Check that `parallelism` has a number in [1, p_max] for each operator and nothing else."""
    for name in parallelism:
        if name not in topology.operators:
            remedy = f"use {', '.join(topology)}"
            raise InputError(f"parallelism.{name}", "names an operator that does not exist", remedy=remedy)
    for name in topology:
        if name not in parallelism:
            raise InputError("parallelism", f"has no entry for {name!r}", seen=dict(parallelism), remedy="add it")
        checks.count(f"parallelism.{name}", parallelism[name])
        if parallelism[name] > p_max:
            remedy = f"give 1 to {p_max}, or raise p_max"
            raise InputError(f"parallelism.{name}", f"is above p_max = {p_max}", seen=parallelism[name], remedy=remedy)


def check_source_rates(topology: Topology, source_rates: Mapping[str, float]) -> None:
    """Check that every source has a rate and no other operator has one: λ_src is offered at the edge of the graph."""
    for name, rate in source_rates.items():
        place = f"source_rates.{name}"
        if name not in topology.operators:
            raise InputError(
                place, "names an operator that does not exist", remedy=f"use one of {', '.join(topology.sources)}"
            )
        if name not in topology.sources:
            problem = "names an operator that has upstreams, so it is no source"
            remedy = "give rates for sources only"
            raise InputError(place, problem, seen=list(topology.operators[name].upstream), remedy=remedy)
        checks.non_negative(place, rate)
    for name in topology.sources:
        if name not in source_rates:
            remedy = f"add {name}: records per second"
            raise InputError("source_rates", f"has no rate for source {name!r}", seen=dict(source_rates), remedy=remedy)
