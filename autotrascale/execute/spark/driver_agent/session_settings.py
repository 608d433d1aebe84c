"""What a program's Spark is opened with beside what its author wants. Pure: values in, values out.

The author's wishes stand, wherever they were written down (in the script, on the command line of `spark-submit`, in
`spark-defaults.conf`); what is set beside them is said in one line each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotrascale.execute.spark.clusters import elasticity_settings as clusters
from autotrascale.plan.executor_size.size_evidence import REQUIRED_SETTINGS

_LOG = "spark.eventLog"
_STATE = "spark.sql.streaming.stateStore"
_SAID = (clusters.DECOMMISSION, clusters.CORES_MAX, clusters.INSTANCES)
_LOOKED_AT = ("spark.master", *_SAID, clusters.CORES, "spark.storage.decommission.enabled")
PROVIDER = f"{_STATE}.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class SessionSettings:
    """What to set, and what to say of it."""

    settings: Mapping[str, str]
    lines: tuple[str, ...]


def choose_session_settings(
    asked: Callable[[str], str | None],
    event_log: str,
    *,
    apply: bool,
    executors: tuple[int, int] | None = None,
    measured: bool = False,
    life: Mapping[str, str] | None = None,
) -> SessionSettings:
    """`asked` is what the author set of a name, if anything. `event_log` is a folder of ours, as a URI; `executors` are
    the least and the most that the program may have, where that was said; `measured`: Spark shall tell what executors
    use of their memory; `life`: sizes that it was relaunched with, which its author wants by now."""
    settings, lines = _readable_log(asked, event_log)
    if apply:
        for more, said in (_movable_state(asked), _executors_that_leave(asked, executors)):
            settings, lines = settings | more, [*lines, *said]
    if measured:
        more = _unless_asked(asked, REQUIRED_SETTINGS)
        settings |= more
        lines += [f"{name} is set to {value}, so that sizes of executors can be judged" for name, value in more.items()]
    if life:
        settings |= life
        lines += [f"{name} is set to {value}: what it is relaunched with" for name, value in life.items()]
    return SessionSettings(settings, tuple(lines))


def _executors_that_leave(
    asked: Callable[[str], str | None], executors: tuple[int, int] | None
) -> tuple[dict[str, str], list[str]]:
    master = asked("spark.master") or "local[*]"
    cores = asked(clusters.CORES)
    wanted = clusters.choose_elasticity_settings(master, executors, int(cores) if cores and cores.isdecimal() else None)
    missing = [each for each in wanted if asked(each.name) is None]
    settings = {each.name: each.value for each in missing}
    lines = [f"{each.name} is set to {each.value}: {each.why}" for each in missing if each.name in _SAID]
    conf = {name: value for name in _LOOKED_AT if (value := asked(name)) is not None} | settings
    return settings, [*lines, *clusters.list_cautions(conf, executors[1] if executors else None)]


def _readable_log(asked: Callable[[str], str | None], event_log: str) -> tuple[dict[str, str], list[str]]:
    wanted = asked(f"{_LOG}.enabled")
    if wanted is not None and wanted.lower() != "true":
        return {}, [f"{_LOG}.enabled is {wanted} here: the queries run and cannot be measured; remove it"]
    if wanted is None:
        folder = asked(f"{_LOG}.dir") or event_log
        settings = {f"{_LOG}.enabled": "true", **_unless_asked(asked, {f"{_LOG}.dir": folder})}
        lines = [f"the event log is on, in {folder}"]
    else:
        settings, lines = {}, []
    as_we_read = {f"{_LOG}.compress": "false", f"{_LOG}.rolling.enabled": "true", f"{_LOG}.rolling.maxFileSize": "16m"}
    settings |= _unless_asked(asked, as_we_read)
    if wanted is not None and f"{_LOG}.compress" in settings:
        lines.append(f"{_LOG}.compress is set to false, so that the log can be read while the program runs")
    if (asked(f"{_LOG}.compress") or "").lower() == "true":
        lines.append(f"{_LOG}.compress is true here: what happens is seen late; remove it")
    return settings, lines


def _movable_state(asked: Callable[[str], str | None]) -> tuple[dict[str, str], list[str]]:
    provider = asked(PROVIDER)
    if provider is not None:
        if provider.endswith("RocksDBStateStoreProvider"):
            return {}, []
        return {}, [f"{PROVIDER} is {provider} here: state in it cannot be moved; remove it"]
    changelog = {f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true"}
    settings = {PROVIDER: ROCKSDB, **_unless_asked(asked, changelog)}
    return settings, ["state of new checkpoints is kept in RocksDB, so that it can be moved"]


def _unless_asked(asked: Callable[[str], str | None], settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if asked(name) is None}
