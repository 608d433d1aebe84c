"""Both ways from lines to a window, without Spark: as a live job is read, and as an archive is, whose joins are made
here in plain Python. What is read, what stages are and what figures mean is the package's own on either way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from autotrascale.analyze.archive import rows, staging
from autotrascale.analyze.archive.staging import SUMMABLE, Share, read_piece
from autotrascale.analyze.facts import BatchFact, Fact
from autotrascale.analyze.joiner import Joiner
from autotrascale.analyze.stage_to_operator import SparkJob, StageRole, assign_roles, hash_shape
from autotrascale.monitor.eventlog.damage import Report
from autotrascale.monitor.eventlog.decoding import decode_line
from autotrascale.monitor.eventlog.log_files import Piece

Row = dict[str, Any]
TABLES = {
    "completed": rows.COMPLETED,
    "jobs": rows.JOBS,
    "plans": rows.PLANS,
    "patterns": rows.PATTERNS,
    "counters": rows.COUNTERS,
    "counts": rows.COUNTS,
    "progress": rows.PROGRESS,
    "tasks": staging.TASKS,
    "applications": rows.APPLICATIONS,
    "executors": rows.EXECUTORS,
    "settings": rows.SETTINGS,
}


def facts(lines: Iterable[str | bytes]) -> list[Fact]:
    """Of a live job."""
    joiner = Joiner()
    events = (decode_line(line.encode() if isinstance(line, str) else line) for line in lines)
    return [fact for event in events if event is not None for fact in joiner.take(event)]


def batches(lines: Iterable[str | bytes]) -> list[BatchFact]:
    return [fact for fact in facts(lines) if isinstance(fact, BatchFact)]


def staged(text: str, folder: Path) -> tuple[dict[str, list[Row]], Report]:
    """The tables of a log, as the executors write them."""
    log = folder / "log"
    log.write_text(text)
    for name in TABLES:
        (folder / name).mkdir(exist_ok=True)
    with Share(str(folder), 0) as share:
        report = read_piece(Piece(0, 0, str(log)), share)
    return {name: _table(folder / name / "0.parquet") for name in TABLES}, report


def windows(text: str, folder: Path) -> dict[str, Row]:
    """One gathered window for each run; without a stream, for each shape of a query."""
    tables, _ = staged(text, folder)
    found: dict[str, Row] = {}
    units = _stage_roles(tables)
    for (run, batch), role_of in units.items():
        stages = _completed(tables["completed"], role_of)
        if not stages or (run is None and any(other is not None for other, _ in units)):
            continue
        told = [row for row in tables["progress"] if (row["run"], row["batch"]) == (run, batch)]
        row = max(told, key=_weight) if told else _untold(batch, stages)
        if row["seconds"] is not None and (told or run is None):
            name = run or f"{hash_shape(role_of)}-0"
            row = {**row, "marks": [*_counted(tables, run, batch), *row["marks"]]}
            _into(found.setdefault(name, _window(name, tables, row)), row, stages, role_of)
    for window in found.values():
        window["tasks"] = _tasks(tables["tasks"], window)
        ranks: dict[str, Row] = {}
        for role in sorted(window.pop("roles"), key=lambda role: role.rank):
            each = ranks.setdefault(role.operator, {"name": role.operator, "stateful": False, "upstream": []})
            each["stateful"] |= role.stateful
            each["upstream"] += [name for name in role.upstream if name not in each["upstream"]]
        window["operators"] = list(ranks.values())
    return found


def _table(path: Path) -> list[Row]:
    return [] if not path.exists() else [dict(row) for row in pq.read_table(path).to_pylist()]


def _weight(row: Row) -> tuple[bool, int]:
    return row["executed"], row["started_ms"]


def _stage_roles(tables: dict[str, list[Row]]) -> dict[tuple[str | None, int], list[StageRole]]:
    texts = {row["pattern"]: row["text"] for row in tables["patterns"]}
    plans = {row["execution"]: row for row in tables["plans"]}
    units: dict[tuple[str | None, int], list[tuple[int, SparkJob]]] = defaultdict(list)
    for row in tables["jobs"]:
        plan = plans.get(row["execution"])
        start = (
            row["first_stage"],
            row["first_rdd"],
            (row["first_shuffle"] or 0) - (plan or {}).get("plan_shuffle", 0),
        )
        job = SparkJob.of(texts[row["pattern"]], texts[plan["plan"]] if plan else None, start)
        batch = next(each for each in (row["batch"], row["root"], -1 - row["job"]) if each is not None)
        units[row["run"], batch].append((row["job"], job))
    return {unit: assign_roles([job for _, job in sorted(jobs, key=_first)]) for unit, jobs in units.items()}


def _untold(batch: int, stages: Sequence[Row]) -> Row:
    """A query that is no stream has nothing but its stages to tell its times."""
    began = min(stage["submitted_ms"] for stage in stages)
    seconds = (max(stage["completed_ms"] for stage in stages) - began) / 1000
    unknown = dict.fromkeys(("query", "input_records", "offered_seconds", "behind"))
    return {**unknown, "batch": batch, "started_ms": began, "seconds": seconds, "marks": []}


def _first(pair: tuple[int, Any]) -> int:
    return pair[0]


def _completed(completed: Sequence[Row], of: Sequence[StageRole]) -> list[Row]:
    found = []
    for role in of:
        if mine := [row for row in completed if row["stage"] == role.stage]:
            stage = {"stage": role.stage, "operator": role.operator, "entry": role.entry, "exit": role.exit}
            stage["tasks"] = max(row["tasks"] for row in mine)
            stage["submitted_ms"] = min(row["submitted_ms"] for row in mine)
            found.append({**stage, "completed_ms": max(row["completed_ms"] for row in mine)})
    return found


def _counted(tables: dict[str, list[Row]], run: str | None, batch: int) -> list[tuple[str, Row]]:
    """What filters of the batch's plans counted."""
    jobs = [row for row in tables["jobs"] if run is not None and (row["run"], row["batch"]) == (run, batch)]
    mine = {row[name] for row in jobs for name in ("execution", "root")}
    found: dict[str, int] = {}
    for row in tables["counters"]:
        if row["execution"] in mine:
            counts = (each["passed"] for each in tables["counts"] if each["counter"] == row["counter"])
            found[row["mark"]] = max(found.get(row["mark"], 0), *counts, 0)
    return [(name, {"n": n, "first": None, "mean": None, "last": None}) for name, n in found.items()]


def _window(run: str, tables: dict[str, list[Row]], told: Row) -> Row:
    task_cpus = max((row["task_cpus"] for row in tables["settings"]), default=None)
    slots = sum((row["cores"] or 0) // (task_cpus or 1) for row in tables["executors"]) or None
    window = {"run": run, "job": told["query"] or "shop", "slots": slots, "executors": _stays(tables)}
    window["task_cpus"] = task_cpus
    return {**window, "marked": False, "batches": [], "roles": []}


def _stays(tables: dict[str, list[Row]]) -> list[Row] | None:
    if not tables["applications"]:
        return None
    came = {row["executor"]: row for row in tables["executors"] if row["cores"] is not None}
    gone = {row["executor"]: row["at"] for row in tables["executors"] if row["cores"] is None}
    return [{"cores": row["cores"], "came_ms": row["at"], "gone_ms": gone.get(name)} for name, row in came.items()]


def _into(window: Row, told: Row, stages: list[Row], role_of: list[StageRole]) -> None:
    marked = any(role.marked for role in role_of)
    window["marked"] |= marked
    marks = [{"key": name, "value": value} for name, value in told["marks"]] if marked else None
    window["batches"].append({**told, "marks": marks, "stages": stages})
    window["roles"] += role_of


def _tasks(tasks: Sequence[Row], window: Row) -> list[Row]:
    homes: dict[tuple[str, bool, bool], int] = {}
    home_of = {}
    for stage in sorted((stage for batch in window["batches"] for stage in batch["stages"]), key=lambda s: s["stage"]):
        home_of[stage["stage"]] = homes.setdefault((stage["operator"], stage["entry"], stage["exit"]), stage["stage"])
    parts: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for task in tasks:
        if task["stage"] in home_of:
            parts[home_of[task["stage"]], task["index"]].append(task)
    return [
        {"stage": home, "index": index, **{name: _sum([task[name] for task in part]) for name in SUMMABLE}}
        for (home, index), part in parts.items()
    ]


def _sum(numbers: Sequence[int | None]) -> int | None:
    return None if None in numbers else sum(number or 0 for number in numbers)
