"""Choose the settings that AuTraScale adds when a user's program opens Spark. Pure: values in, values out.

The author's settings always win, whether they stand in the script, on the command line of `spark-submit` or in
`spark-defaults.conf`. One line of output tells the author of each setting that changes the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotrascale.execute.spark.clusters import elasticity_settings as clusters
from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.plan.executor_size.size_evidence import REQUIRED_SETTINGS

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_LOG = "spark.eventLog"
_REPORTED = (clusters.DECOMMISSION, clusters.CORES_MAX, clusters.INSTANCES)
_CHECKED = ("spark.master", *_REPORTED, clusters.CORES, clusters.STORAGE_DECOMMISSION)

Lookup = Callable[[str], str | None]
"""Returns the author's value of a setting, or None."""


@dataclass(frozen=True)
class SessionSettings:
    """Settings to add, and lines that tell the author of them."""

    settings: Mapping[str, str]
    lines: tuple[str, ...]


def choose_session_settings(
    asked: Lookup, event_log: str, options: ProgramOptions, relaunch_settings: Mapping[str, str] | None = None
) -> SessionSettings:
    """Choose what to add to the author's settings.

    Args:
        asked: returns the author's value of a setting
        event_log: URI of a folder for the event log, used if the author names none
        options: permissions of AuTraScale in the program
        relaunch_settings: executor sizes that the program was relaunched with; they replace the author's
    """
    settings, lines = _readable_log(asked, event_log)
    if options.apply:
        for more, told in (_movable_state(asked), _elastic_executors(asked, options.executors)):
            settings, lines = settings | more, [*lines, *told]
    if options.memory_metrics:
        more = _unless_asked(asked, REQUIRED_SETTINGS)
        settings |= more
        lines += [f"set {name} to {value}: executor sizes cannot be judged without it" for name, value in more.items()]
    if relaunch_settings:
        settings |= relaunch_settings
        lines += [
            f"set {name} to {value}: the program is relaunched with it" for name, value in relaunch_settings.items()
        ]
    return SessionSettings(settings, tuple(lines))


def _elastic_executors(asked: Lookup, executors: tuple[int, int] | None) -> tuple[dict[str, str], list[str]]:
    master = asked("spark.master") or "local[*]"
    cores = asked(clusters.CORES)
    wanted = clusters.choose_elasticity_settings(master, executors, int(cores) if cores and cores.isdecimal() else None)
    missing = [each for each in wanted if asked(each.name) is None]
    settings = {each.name: each.value for each in missing}
    lines = [f"set {each.name} to {each.value}: {each.why}" for each in missing if each.name in _REPORTED]
    conf = {name: value for name in _CHECKED if (value := asked(name)) is not None} | settings
    return settings, [*lines, *clusters.list_cautions(conf, executors[1] if executors else None)]


def _readable_log(asked: Lookup, event_log: str) -> tuple[dict[str, str], list[str]]:
    wanted = asked(f"{_LOG}.enabled")
    if wanted is not None and wanted.lower() != "true":
        return {}, [f"{_LOG}.enabled is {wanted}, so the queries cannot be measured: remove the setting"]
    if wanted is None:
        folder = asked(f"{_LOG}.dir") or event_log
        settings = {f"{_LOG}.enabled": "true", **_unless_asked(asked, {f"{_LOG}.dir": folder})}
        lines = [f"set {_LOG}.enabled to true: the event log is written to {folder}"]
    else:
        settings, lines = {}, []
    followable = {f"{_LOG}.compress": "false", f"{_LOG}.rolling.enabled": "true", f"{_LOG}.rolling.maxFileSize": "16m"}
    settings |= _unless_asked(asked, followable)
    if wanted is not None and f"{_LOG}.compress" in settings:
        lines.append(f"set {_LOG}.compress to false: the log is read while the program runs")
    if (asked(f"{_LOG}.compress") or "").lower() == "true":
        lines.append(f"{_LOG}.compress is true, so batches are seen late: remove the setting")
    return settings, lines


def _movable_state(asked: Lookup) -> tuple[dict[str, str], list[str]]:
    provider = asked(PROVIDER)
    if provider is not None:
        if provider.endswith("RocksDBStateStoreProvider"):
            return {}, []
        return {}, [f"{PROVIDER} is {provider}, whose state cannot be moved to other partitions: remove the setting"]
    settings = {PROVIDER: ROCKSDB, **_unless_asked(asked, {_CHANGELOG: "true"})}
    return settings, ["set the state store of new checkpoints to RocksDB: its state can be moved to other partitions"]


def _unless_asked(asked: Lookup, settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if asked(name) is None}
