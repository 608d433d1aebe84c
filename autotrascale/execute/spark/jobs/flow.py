"""What a job is to the engine: a name, a topology, and a way to build its query for a given parallelism.

    @job({"orders": Operator(), "clean": Operator(("orders",)), "count": Operator(("clean",), stateful=True)})
    def shop(flow: Flow) -> DataStreamWriter[Any]:
        orders = flow.source("orders", flow.spark.readStream.format("kafka")…load(), arrival="timestamp")
        clean = flow.operator("clean", orders, do=lambda df: df.where("amount > 0"))
        count = flow.operator("count", clean, do=lambda df: df.groupBy("shop").count(), by=["shop"])
        return count.writeStream.format("console").outputMode("update")

One operator = one stage of the micro-batch = one number of partitions. `Flow.operator` cuts the stages (a shuffle to
k[name] partitions before each operator) and sets a mark behind it, which counts what the operator gives.
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
"""Name, schema and parallelism of a source → its records, where somebody else than the job gives them."""


@runtime_checkable
class StreamingJob(Protocol):
    """A dataclass with these three is a job whose fields are its options; `@job` makes one of a function."""

    @property
    def name(self) -> str: ...

    @property
    def topology(self) -> Topology: ...

    def build(self, flow: Flow) -> Query:
        """The query, not started: the engine adds the checkpoint and starts it."""
        ...


class Flow:
    """What `build` is handed: the session, the parallelism to build for, and the sources, stages and marks."""

    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        parallelism: Mapping[str, int],
        load_file: Path | str,
        feeds: SourceFeed = lambda _name, _schema, _k: None,
    ) -> None:
        self.spark = spark
        self.topology = topology
        self.parallelism = dict(parallelism)
        self.generated: list[str] = []  # the sources whose load the engine makes
        self.marked: list[str] = []
        self.fed: list[str] = []  # the sources whose records come from where the job file says
        self._load_file, self._feeds = str(load_file), feeds

    def load(self, name: str, schema: str, records: Records) -> DataFrame:
        """Source `name` at the rate of the trial, in k[name] partitions. `records` makes the columns of `schema` (DDL)
        from record numbers, unless the job file names a topic that has them; a column `ts`, the arrival time, is
        added."""
        given = self._feeds(name, schema, self.parallelism[name])
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
        """Marks a source of the job's own. `arrival` is the column (a timestamp) that latency is counted from. The
        number of its partitions is the job's affair: for Kafka, `.option("minPartitions", flow.parallelism[name])`."""
        return self._mark(name, df, arrival)

    def operator(
        self, name: str, *upstream: DataFrame, do: Callable[..., DataFrame], by: Sequence[str] = ()
    ) -> DataFrame:
        """`do` on the upstream, in k[name] partitions: spread `by` these columns, else evenly. A stateful operator
        without `by` is left to the shuffle that Spark itself puts before it, which has k[name] partitions too."""
        if name not in self.topology.operators:
            raise InputError(
                f"flow.operator({name!r})",
                "is not in the job's topology",
                remedy=f"use one of {', '.join(self.topology)}, or declare it",
            )
        inputs = [self._spread(name, df, by) for df in upstream]
        return self._mark(name, do(*inputs))

    def _spread(self, name: str, df: DataFrame, by: Sequence[str]) -> DataFrame:
        if by:
            return df.repartition(self.parallelism[name], *by)
        return df if self.topology.operators[name].stateful else df.repartition(self.parallelism[name])

    def _mark(self, name: str, df: DataFrame, arrival: str = "") -> DataFrame:
        self.marked.append(name)
        return observe_arrivals(df, name, arrival) if arrival else count_records(df, name)


@dataclass(frozen=True)
class FunctionJob:
    """A job made of a function of one `Flow`; its keyword-only arguments are its options."""

    name: str
    topology: Topology
    function: Callable[..., Query]
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self, flow: Flow) -> Query:
        return self.function(flow, **self.options)

    def with_options(self, options: Mapping[str, Any], *, place: str) -> FunctionJob:
        """Each of the type that the function declares for it, where it declares one that a file can say."""
        declared = {p.name: p for p in signature(self.function).parameters.values() if p.kind is Parameter.KEYWORD_ONLY}
        for name in options:
            if name not in declared:
                remedy = f"use one of {', '.join(declared)}" if declared else "this job has no options: remove it"
                raise InputError(f"{place}.{name}", "is not an option of the job", remedy=remedy)
        read = validate(dict(options), _kind_of(self.function, declared), place=place)
        given = {name: getattr(read, name) for name in options}
        return FunctionJob(self.name, self.topology, self.function, given)


def _kind_of(function: Callable[..., Query], declared: Mapping[str, Parameter]) -> type[Any]:
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):  # of names that are there for a type checker only
        hints = {}
    members: list[tuple[str, Any, Any]] = []
    for name, parameter in declared.items():
        hint = hints.get(name, Any)
        required = parameter.default is Parameter.empty
        default = field() if required else field(default_factory=partial(_same, parameter.default))
        members.append((name, hint if _can_be_said(hint) else Any, default))
    return make_dataclass("Options", members, frozen=True, kw_only=True)


def _same(default: object) -> object:
    return default


def _can_be_said(hint: Any) -> bool:
    """In a job file: numbers, words, lists and mappings of such."""
    if get_origin(hint) is Literal:
        return True
    return hint in (int, float, str, bool, type(None), Any, ...) or (
        get_origin(hint) in (list, tuple, dict, Union, UnionType, Mapping, Sequence)
        and all(map(_can_be_said, get_args(hint)))
    )


def job(operators: Mapping[str, Operator], *, name: str = "") -> Callable[[Callable[..., Query]], FunctionJob]:
    """Turns a function that builds a query into a job."""

    def make(function: Callable[..., Query]) -> FunctionJob:
        return FunctionJob(name or function.__name__, Topology(dict(operators)), function)

    return make
