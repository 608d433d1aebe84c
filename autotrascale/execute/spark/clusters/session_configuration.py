"""Settings with which AuTraScale opens a Spark session for a Flow job."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from autotrascale.execute.spark.common.spark_settings import SparkSettings

_JARS = "spark.jars"
_STATE = "spark.sql.streaming.stateStore"

# The user's `conf` replaces these.
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    # Only the state of this provider can be moved to other partitions. Changelogs make its commits short.
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    # A session runs hundreds of queries; its memory must not grow with them.
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.streaming.stopTimeout": "30s",
    # No reader needs the accumulators of metrics. Without them the log is about half as long.
    "spark.eventLog.includeTaskMetricsAccumulators": "false",
}

_ON_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "autotrascale.execute.spark.driver_agent.python_daemon",
    "spark.local.dir": "{work}/local",
}


def build_configuration(settings: SparkSettings, work: Path) -> dict[str, str]:
    """Return the settings of a session: defaults, replaced by the user's, replaced by those that the engine needs."""
    here = {name: value.format(work=work) for name, value in _ON_THIS_MACHINE.items()} if settings.local else {}
    ours = {
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.sql.adaptive.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_log_folder(work).as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": "16m",
        "spark.driver.extraJavaOptions": " ".join(
            filter(None, ["-XX:+ExitOnOutOfMemoryError", settings.conf.get("spark.driver.extraJavaOptions")])
        ),
        "spark.sql.warehouse.dir": (work / "warehouse").as_uri(),
    }
    jars = _find_kafka_jars(settings)
    connector = {_JARS: ",".join(jars)} if jars else {}
    return {"spark.app.name": "autotrascale", **_DEFAULTS, **here, **connector, **settings.conf, **ours}


def lacks_connector(settings: SparkSettings) -> bool:
    """Return whether the job reads a topic, and Kafka's jars are neither named in the job file nor fetched."""
    return bool(settings.sources) and not _names_jars(settings.conf) and not _find_kafka_jars(settings)


def _find_kafka_jars(settings: SparkSettings) -> list[str]:
    """Return the jars that `scripts/kafka.sh fetch` has fetched, if the job needs them and names none."""
    if not settings.sources or _names_jars(settings.conf):
        return []
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "autotrascale")
    newest = max(cache.glob("kafka-*/connector"), default=None)
    return [] if newest is None else sorted(str(jar) for jar in newest.glob("*.jar"))


def _names_jars(conf: Mapping[str, str]) -> bool:
    return any(name in conf for name in (_JARS, "spark.jars.packages", "spark.driver.extraClassPath"))


def event_log_folder(work: Path) -> Path:
    return work / "events"
