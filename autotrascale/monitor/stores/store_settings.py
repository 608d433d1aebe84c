"""The `store:` section of a metrics file, and the store that it describes.

    store: {kind: sqlite, path: mlruns/metrics.db, keep_days: 30}
    store: {kind: influxdb, url: "https://metrics.example", bucket: streams, org: data, token_env: INFLUXDB_TOKEN}
    store: {kind: influxdb, url: "http://localhost:8086", bucket: telegraf/autogen, token_file: /run/secrets/influxdb}

A token comes from the environment or from a file, never from the YAML, because such files end up in repositories.
InfluxDB 1.8 (Flux switched on) takes `database/retention policy` as its bucket and `user:password` as its token.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.monitor.stores.metric_store import MetricStore
from autotrascale.monitor.stores.points import SECOND
from autotrascale.validation import read_text

_DAY = 86_400 * SECOND
_TOKEN_BYTES = 100_000


@dataclass(frozen=True)
class SqliteSettings:
    """A SQLite file. Points older than `keep_days` are deleted; None keeps everything."""

    kind: Literal["sqlite"] = "sqlite"
    path: str = "mlruns/metrics.db"
    keep_days: float | None = None

    def __post_init__(self) -> None:
        _not_empty("path", self.path)
        checks.optional(checks.positive, "keep_days", self.keep_days)

    def open(self) -> MetricStore:
        from autotrascale.monitor.stores.sqlite_store import SqliteStore

        keep = None if self.keep_days is None else round(self.keep_days * _DAY)
        return SqliteStore(Path(self.path).expanduser(), keep)


@dataclass(frozen=True)
class InfluxSettings:
    """An InfluxDB server. While it is away, up to `spool_points` points (about 150 bytes each) wait in `spool_path`."""

    kind: Literal["influxdb"]
    url: str
    bucket: str
    org: str = "-"
    token_env: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    timeout_seconds: float = 10.0
    spool_path: str = "mlruns/metrics-spool.db"
    spool_points: int = 1_000_000

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.username is not None or parts.password is not None:
            raise InputError("url", "contains a user or password", remedy="use token_env or token_file")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError("url", "is not a web address", seen=self.url, remedy="write http://host:port")
        for name in ("bucket", "org", "spool_path"):
            _not_empty(name, getattr(self, name))
        if self.token_env is not None and self.token_file is not None:
            raise InputError("token_env", "is set together with token_file", remedy="remove one")
        checks.positive("timeout_seconds", self.timeout_seconds)
        checks.count("spool_points", self.spool_points)

    def open(self, environment: Mapping[str, str] = os.environ) -> MetricStore:
        try:
            from autotrascale.monitor.stores.influx_store import InfluxStore
            from autotrascale.monitor.stores.spooled_store import SpooledStore
        except ModuleNotFoundError as error:
            if error.name != "influxdb_client":
                raise
            remedy = "pip install 'autotrascale[influxdb]'"
            raise InputError("store", "of kind influxdb needs the influxdb-client package", remedy=remedy) from None
        token = self._token(environment)
        store = InfluxStore(self.url, self.bucket, self.org, token, self.timeout_seconds, self.ca_file)
        try:
            return SpooledStore(store, Path(self.spool_path).expanduser(), self.spool_points)
        except BaseException:
            store.close()
            raise

    def _token(self, environment: Mapping[str, str]) -> str | None:
        if self.token_env is not None:
            return _secret("token_env", self.token_env, environment.get(self.token_env))
        if self.token_file is not None:
            try:
                text = read_text(Path(self.token_file).expanduser(), _TOKEN_BYTES)
            except InputError:
                text = None
            return _secret("token_file", self.token_file, text)
        return None


StoreSettings = Annotated[SqliteSettings | InfluxSettings, Field(discriminator="kind")]


def open_store(settings: SqliteSettings | InfluxSettings) -> MetricStore:
    """Open the store of the settings. An InfluxDB that is away is not an error: points wait for it."""
    return settings.open()


def _secret(place: str, name: str, text: str | None) -> str:
    """Check a secret. `name` tells its place and may be shown; the secret may not."""
    if text is None or not text.strip():
        raise InputError(f"store.{place}", "names no readable token", seen=name, remedy="set it")
    token = text.strip()
    if not (token.isascii() and token.isprintable()):
        raise InputError(f"store.{place}", "names a token with invalid characters", seen=name, remedy="check it")
    return token


def _not_empty(place: str, text: str) -> None:
    if not text:
        raise InputError(place, "is empty", remedy="give a value, or leave it out")
