"""The lives of one application, each with settings of its own: of a program that is adopted, and of a job of ours.

A launch that replaced another is on trial until some time after its first batches. Should it fail or not come up, the
next one has the settings of before. A program's lives are written down by its keeper (`adopted/keeper.py`), those of a
job of ours here: whole, and before anything is touched, so that whoever comes after a crash goes on with the same launch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from autotrascale import validation
from autotrascale.atomic_files import write_atomically


@dataclass(frozen=True)
class NextLaunch:
    """The settings of a launch to come, for which action on sizes. `within`: so many seconds it may take until its first
    batches are done; `trial`: for so long after them it is started with the settings of before, should it fail."""

    action: int
    settings: Mapping[str, str]
    within: float
    trial: float


@dataclass(frozen=True)
class Launch:
    """The present one. `why` it was given the settings of before again, if it was, and how often that was tried;
    `left_at`: when the queries of the one before had stopped."""

    number: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    action: int = 0
    why: str = ""
    former: Mapping[str, str] | None = None
    left_at: float | None = None
    within: float = 0.0
    trial: float = 0.0
    tries: int = 1


@dataclass(frozen=True)
class LaunchReady:
    """The first batches of a launch were done."""

    at: float


@dataclass(frozen=True)
class _Written:
    """`over`: what the job file said of each setting of the launch, and nothing where it said nothing."""

    launch: Launch
    over: Mapping[str, str]
    arrived: float | None = None


class LaunchLog:
    """Of one job of ours. `conf`: what its file says; where that was changed since, it counts, and not the launch."""

    def __init__(self, home: Path, conf: Mapping[str, str]) -> None:
        self._path, self._conf = home / "launch.json", conf
        written = validation.read_file(self._path, _Written) if self._path.exists() else _Written(Launch(), {})
        if written.over != self._over(written.launch):
            written = _Written(Launch(written.launch.number + 1), {})
        self._written = written

    @property
    def launch(self) -> Launch:
        return self._written.launch

    @property
    def arrived(self) -> float | None:
        return self._written.arrived

    def begin(self, following: NextLaunch) -> None:
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

    def left(self, at: float) -> None:
        self._write(replace(self.launch, left_at=at))

    def arrive(self, at: float) -> None:
        self._write(self.launch, at)

    def is_on_trial(self, now: float) -> bool:
        return self.launch.former is not None and (self.arrived is None or now - self.arrived < self.launch.trial)

    def back(self, why: str) -> None:
        launch = self.launch
        self._write(Launch(launch.number + 1, launch.former or {}, launch.action, why))

    def _write(self, launch: Launch, arrived: float | None = None) -> None:
        self._written = _Written(launch, self._over(launch), arrived)
        write_atomically(self._path, json.dumps(asdict(self._written)))

    def _over(self, launch: Launch) -> dict[str, str]:
        return {name: self._conf[name] for name in {**launch.settings, **(launch.former or {})} if name in self._conf}
