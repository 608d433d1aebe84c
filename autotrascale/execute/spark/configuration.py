"""What the one Spark session is opened with."""

from __future__ import annotations

from pathlib import Path

from autotrascale.execute.spark.settings import SparkSettings

_STATE = "spark.sql.streaming.stateStore"

# A user's own `conf` goes over these.
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    # Only this provider's state can be given another number of partitions. Changelogs make its commits short.
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    # A session lives for hundreds of queries; its memory must not grow with them.
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.streaming.stopTimeout": "30s",
    # Without the metrics' accumulators the log is about half as long, and nobody reads them.
    "spark.eventLog.includeTaskMetricsAccumulators": "false",
}

_ON_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "autotrascale.execute.spark.host.daemon",
    "spark.local.dir": "{work}/local",
}


def configuration(settings: SparkSettings, work: Path) -> dict[str, str]:
    """What the session is opened with: our defaults, the user's wishes over them, and over those what we live by."""
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
    return {"spark.app.name": "autotrascale", **_DEFAULTS, **here, **settings.conf, **ours}


def event_log_folder(work: Path) -> Path:
    return work / "events"
