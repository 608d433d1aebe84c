"""The present launch of an own job, recorded in the job's home.

Each change is written atomically and before anything is touched, so a later process continues with the same launch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from autotrascale import validation
from autotrascale.atomic_files import write_atomically
from autotrascale.execute.spark.common.launches import Launch, NextLaunch


@dataclass(frozen=True)
class _Record:
    """The content of the file. `over` holds the job file's values of the settings that the launch changes."""

    launch: Launch
    over: Mapping[str, str]
    arrived: float | None = None


class LaunchLog:
    """The launches of one own job."""

    def __init__(self, home: Path, conf: Mapping[str, str]) -> None:
        """Read the record in `home`. A setting that was changed in the job file (`conf`) since makes it invalid."""
        self._path, self._conf = home / "launch.json", conf
        record = validation.read_file(self._path, _Record) if self._path.exists() else _Record(Launch(), {})
        if record.over != self._overridden(record.launch):
            record = _Record(Launch(record.launch.number + 1), {})
        self._record = record

    @property
    def launch(self) -> Launch:
        return self._record.launch

    @property
    def arrived(self) -> float | None:
        """Return the Unix time at which the first batches of the launch were done, if they are."""
        return self._record.arrived

    def begin(self, following: NextLaunch) -> None:
        """Record that `following` replaces the present launch."""
        launch = self.launch
        self._write(
            Launch(
                launch.number + 1,
                following.settings,
                following.action,
                former=launch.settings,
                within=following.within,
                trial=following.trial,
            )
        )

    def mark_left(self, at: float) -> None:
        """Record that the queries of the launch before stopped at Unix time `at`."""
        self._write(replace(self.launch, left_at=at))

    def mark_arrived(self, at: float) -> None:
        """Record that the first batches of the present launch were done at Unix time `at`."""
        self._write(self.launch, at)

    def is_on_trial(self, now: float) -> bool:
        """Return whether a failure at Unix time `now` brings the former settings back."""
        return self.launch.former is not None and (self.arrived is None or now - self.arrived < self.launch.trial)

    def revert(self, why: str) -> None:
        """Record a launch with the former settings, because of `why`."""
        launch = self.launch
        self._write(Launch(launch.number + 1, launch.former or {}, launch.action, why))

    def _write(self, launch: Launch, arrived: float | None = None) -> None:
        self._record = _Record(launch, self._overridden(launch), arrived)
        write_atomically(self._path, json.dumps(asdict(self._record)))

    def _overridden(self, launch: Launch) -> dict[str, str]:
        return {name: self._conf[name] for name in {**launch.settings, **(launch.former or {})} if name in self._conf}
