"""The definition of a job: a name, a topology, and a function that builds its query for a given parallelism.

    @job({"orders": Operator(), "clean": Operator(("orders",)), "count": Operator(("clean",), stateful=True)})
    def shop(flow: Flow) -> DataStreamWriter[Any]:
        orders = flow.source("orders", flow.spark.readStream.format("kafka")…load(), arrival="timestamp")
        clean = flow.operator("clean", orders, do=lambda df: df.where("amount > 0"))
        count = flow.operator("count", clean, do=lambda df: df.groupBy("shop").count(), by=["shop"])
        return count.writeStream.format("console").outputMode("update")

One operator is one stage of the micro-batch and has one number of partitions. `Flow.operator` begins the stage with a
shuffle to k[name] partitions and ends it with a mark, which counts the records that the operator emits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Protocol, TypeAlias, Union, get_args, get_origin, get_type_hints, runtime_checkable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.load_generator import ARRIVAL, Records, make_load_source
from autotrascale.execute.spark.jobs.marking import count_records, observe_arrivals
from autotrascale.validation import validate

Query: TypeAlias = DataStreamWriter
SourceFeed: TypeAlias = Callable[[str, str, int], DataFrame | Records | None]
"""A function from name, schema and parallelism of a source to its records, or None if the job makes them itself."""


@runtime_checkable
class StreamingJob(Protocol):
    """A job: `name`, `topology` and `build`. The fields of a dataclass are the job's options; see also `@job`."""

    @property
    def name(self) -> str: ...

    @property
    def topology(self) -> Topology: ...

    def build(self, flow: Flow) -> Query:
        """Return the query, not started. AuTraScale adds the checkpoint and starts it."""
        ...


class Flow:
    """The builder that a job's `build` gets: sources, operators and marks at the parallelism to build for.

    Attributes:
        spark: the session.
        topology: the operators of the job.
        parallelism: number of partitions by operator.
        generated: names of the sources whose load AuTraScale generates.
        marked: names of all sources and operators built so far.
        fed: names of the sources whose records come from a topic in the job file.
    """

    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        parallelism: Mapping[str, int],
        load_file: Path | str,
        feed: SourceFeed = lambda _name, _schema, _k: None,
    ) -> None:
        self.spark = spark
        self.topology = topology
        self.parallelism = dict(parallelism)
        self.generated: list[str] = []
        self.marked: list[str] = []
        self.fed: list[str] = []
        self._load_file, self._feed = str(load_file), feed

    def load(self, name: str, schema: str, records: Records) -> DataFrame:
        """Return source `name` at the rate of the trial, in k[name] partitions.

        Args:
            name: a source of the topology.
            schema: columns of a record as DDL. A column `ts` with the arrival time is added.
            records: makes the columns from record numbers; unused if the job file names a topic for this source.
        """
        given = self._feed(name, schema, self.parallelism[name])
        if given is not None:
            self.fed.append(name)
        if isinstance(given, DataFrame):
            return self.source(name, given, arrival=ARRIVAL)
        records = records if given is None else given
        self.generated.append(name)
        kind = f"load_{name}"
        self.spark.dataSource.register(make_load_source(kind, schema, records))
        reader = self.spark.readStream.format(kind).option("file", self._load_file).option("source", name)
        return self.source(name, reader.option("partitions", self.parallelism[name]).load(), arrival=ARRIVAL)

    def source(self, name: str, df: DataFrame, *, arrival: str) -> DataFrame:
        """Mark `df` as source `name` and return it.

        The job sets the number of partitions of its own source, for Kafka with
        `.option("minPartitions", flow.parallelism[name])`.

        Args:
            name: a source of the topology.
            df: a streaming data frame.
            arrival: timestamp column from which latency is counted.
        """
        return self._mark(name, df, arrival)

    def operator(
        self, name: str, *upstream: DataFrame, do: Callable[..., DataFrame], by: Sequence[str] = ()
    ) -> DataFrame:
        """Apply `do` to the upstream data frames in k[name] partitions and return the marked result.

        Args:
            name: an operator of the topology; `InputError` is raised for another name.
            upstream: the inputs of `do`.
            do: the work of the operator.
            by: columns to partition by. Without columns, records are spread evenly; a stateful operator without
                columns gets the shuffle that Spark puts before it, which has k[name] partitions too.
        """
        if name not in self.topology.operators:
            raise InputError(
                f"flow.operator({name!r})",
                "is not in the job's topology",
                remedy=f"use one of {', '.join(self.topology)}, or declare it",
            )
        inputs = [self._repartition(name, df, by) for df in upstream]
        return self._mark(name, do(*inputs))

    def _repartition(self, name: str, df: DataFrame, by: Sequence[str]) -> DataFrame:
        if by:
            return df.repartition(self.parallelism[name], *by)
        return df if self.topology.operators[name].stateful else df.repartition(self.parallelism[name])

    def _mark(self, name: str, df: DataFrame, arrival: str = "") -> DataFrame:
        self.marked.append(name)
        return observe_arrivals(df, name, arrival) if arrival else count_records(df, name)


@dataclass(frozen=True)
class FunctionJob:
    """A job made by `@job` from a function of one `Flow`. Keyword-only arguments of the function are its options."""

    name: str
    topology: Topology
    function: Callable[..., Query]
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self, flow: Flow) -> Query:
        return self.function(flow, **self.options)

    def with_options(self, options: Mapping[str, Any], *, place: str) -> FunctionJob:
        """Return the job with these options. Raise `InputError` for an unknown option or a value of another type.

        A value is checked only if the function annotates the option with a type that a job file can hold.
        """
        declared = {p.name: p for p in signature(self.function).parameters.values() if p.kind is Parameter.KEYWORD_ONLY}
        for name in options:
            if name not in declared:
                remedy = f"use one of {', '.join(declared)}" if declared else "this job has no options: remove it"
                raise InputError(f"{place}.{name}", "is not an option of the job", remedy=remedy)
        checked = validate(dict(options), _make_options_class(self.function, declared), place=place)
        return FunctionJob(self.name, self.topology, self.function, {name: getattr(checked, name) for name in options})


def _make_options_class(function: Callable[..., Query], declared: Mapping[str, Parameter]) -> type[Any]:
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):  # names that exist for a type checker only
        hints = {}
    members: list[tuple[str, Any, Any]] = []
    for name, parameter in declared.items():
        hint = hints.get(name, Any)
        required = parameter.default is Parameter.empty
        default = field() if required else field(default_factory=partial(_identity, parameter.default))
        members.append((name, hint if _fits_a_job_file(hint) else Any, default))
    return make_dataclass("Options", members, frozen=True, kw_only=True)


def _identity(value: object) -> object:
    return value


def _fits_a_job_file(hint: Any) -> bool:
    """Return whether YAML can express values of the type `hint`: numbers, text, lists and mappings of these."""
    if get_origin(hint) is Literal:
        return True
    return hint in (int, float, str, bool, type(None), Any, ...) or (
        get_origin(hint) in (list, tuple, dict, Union, UnionType, Mapping, Sequence)
        and all(map(_fits_a_job_file, get_args(hint)))
    )


def job(operators: Mapping[str, Operator], *, name: str = "") -> Callable[[Callable[..., Query]], FunctionJob]:
    """Return a decorator that turns a query-building function into a job.

    Args:
        operators: the topology, by operator name.
        name: name of the job; the function's name by default.
    """

    def make(function: Callable[..., Query]) -> FunctionJob:
        return FunctionJob(name or function.__name__, Topology(dict(operators)), function)

    return make
