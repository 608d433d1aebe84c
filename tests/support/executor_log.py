"""An event log as Spark 4 writes it, with the events about the resource usage of executors."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MB = 2**20
BEGAN = 1_700_000_000_000  # milliseconds


@dataclass
class ExecutorLog:
    """The lines of the log, in the order of the calls. Times are milliseconds since its begin, memory is in MB."""

    application: str = "orders"
    conf: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.event("SparkListenerApplicationStart", {"App Name": self.application})
        properties = {"spark.master": "spark://127.0.0.1:7077", **self.conf}
        self.event("SparkListenerEnvironmentUpdate", {"Spark Properties": properties})

    def event(self, name: str, said: dict[str, Any]) -> None:
        self.lines.append(json.dumps({"Event": name, **said}, separators=(",", ":")))

    def came(self, at: int, executor: str = "0", cores: int = 1) -> None:
        info = {"Host": "127.0.0.2", "Total Cores": cores}
        self.event(
            "SparkListenerExecutorAdded", {"Timestamp": BEGAN + at, "Executor ID": executor, "Executor Info": info}
        )

    def went(self, at: int, why: str, executor: str = "0") -> None:
        said = {"Timestamp": BEGAN + at, "Executor ID": executor, "Removed Reason": why}
        self.event("SparkListenerExecutorRemoved", said)

    def task(
        self,
        at: int,
        run: int = 1000,
        gc: int = 0,
        cpu: int = 500,
        spilled: int = 0,
        executor: str = "0",
        raised: str = "",
        **memory: float,
    ) -> None:
        """Add the end of a task. `memory` has the arguments of `memory_of`."""
        reason = {"Reason": "ExceptionFailure", "Class Name": raised} if raised else {"Reason": "Success"}
        self.event(
            "SparkListenerTaskEnd",
            {
                "Stage ID": 1,
                "Stage Attempt ID": 0,
                "Task Type": "ResultTask",
                "Task End Reason": reason,
                "Task Info": {"Task ID": 1, "Index": 0, "Executor ID": executor, "Finish Time": BEGAN + at},
                "Task Executor Metrics": memory_of(**memory),
                "Task Metrics": {
                    "Executor Deserialize Time": 0,
                    "Executor Deserialize CPU Time": 0,
                    "Executor Run Time": run,
                    "Executor CPU Time": cpu * 1_000_000,
                    "Peak Execution Memory": 0,
                    "JVM GC Time": gc,
                    "Result Serialization Time": 0,
                    "Memory Bytes Spilled": spilled * MB,
                    "Disk Bytes Spilled": 0,
                    "Shuffle Read Metrics": {"Fetch Wait Time": 0, "Total Records Read": 0},
                    "Shuffle Write Metrics": {"Shuffle Records Written": 0},
                    "Input Metrics": {"Records Read": 0},
                    "Output Metrics": {"Records Written": 0},
                },
            },
        )

    def stage(self, executor: str = "0", **memory: float) -> None:
        said = {"Executor ID": executor, "Stage ID": 1, "Stage Attempt ID": 0, "Executor Metrics": memory_of(**memory)}
        self.event("SparkListenerStageExecutorMetrics", said)

    def batch(self, number: int, at: int, took: int, records: int, state_mb: float | None = None) -> None:
        """Add a batch that was triggered at `at`."""
        when = datetime.fromtimestamp((BEGAN + at) / 1000, UTC).isoformat(timespec="milliseconds")
        states = [] if state_mb is None else [{"numRowsTotal": 1, "memoryUsedBytes": round(state_mb * MB)}]
        progress = {
            "id": "q",
            "runId": "r",
            "name": "orders",
            "timestamp": when.replace("+00:00", "Z"),
            "batchId": number,
            "batchDuration": took,
            "durationMs": {"addBatch": took, "triggerExecution": took},
            "stateOperators": states,
            "sources": [{"description": "rate", "numInputRows": records}],
            "sink": {"description": "noop", "numOutputRows": -1},
        }
        self.event("org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent", {"progress": progress})

    def write(self, folder: Path, name: str = "app-1") -> Path:
        """Write the log as one file of a rolling log, uncompressed, and return its folder."""
        parts = folder / f"eventlog_v2_{name}"
        parts.mkdir(parents=True, exist_ok=True)
        (parts / f"events_1_{name}").write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        return parts


def memory_of(
    heap: float = 0,
    not_heap: float = 0,
    jvm: float = 0,
    python: float = 0,
    other: float = 0,
    young: float = 0,
    full: float = 0,
) -> dict[str, int]:
    return {
        "JVMHeapMemory": round(heap * MB),
        "JVMOffHeapMemory": round(not_heap * MB),
        "DirectPoolMemory": 0,
        "ProcessTreeJVMRSSMemory": round(jvm * MB),
        "ProcessTreePythonRSSMemory": round(python * MB),
        "ProcessTreeOtherRSSMemory": round(other * MB),
        "MinorGCCount": round(young),
        "MajorGCCount": round(full),
    }
