"""A job that writes each line once, when it comes first. Lines come from text files in a folder, or from a socket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import functions as fn

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query


@dataclass(frozen=True)
class Firsts:
    folder: str
    port: int = 0  # of the socket

    name: ClassVar[str] = "firsts"
    topology: ClassVar[Topology] = Topology({"lines": Operator(), "first": Operator(("lines",), stateful=True)})

    def build(self, flow: Flow) -> Query:
        reader = flow.spark.readStream
        if self.port:
            read = reader.format("socket").option("host", "127.0.0.1").option("port", self.port).load()
        else:
            read = reader.format("text").load(f"{self.folder}/in")
        lines = flow.source("lines", read.withColumn("at", fn.current_timestamp()), arrival="at")
        first = flow.operator("first", lines, do=lambda df: df.select("value").dropDuplicates(["value"]), by=["value"])
        out = first.writeStream.format("json").outputMode("append").option("path", f"{self.folder}/results")
        return out.trigger(processingTime="300 milliseconds")
