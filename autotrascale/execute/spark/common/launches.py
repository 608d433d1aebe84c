"""Launches of an application: each start with its settings.

A launch that replaces another is on trial for some time after its first batches. A launch that fails on trial, or does
not start, is followed by a launch with the former settings. The supervisor records the launches of an adopted program;
`controller/launch_log.py` records those of an own job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NextLaunch:
    """The launch that is to replace the present launch.

    Attributes:
        action: number of the size action that asks for the launch.
        settings: Spark settings beside those of the job file.
        within: seconds until its first batches must be done.
        trial: seconds after the first batches in which a failure restores the former settings.
    """

    action: int
    settings: Mapping[str, str]
    within: float
    trial: float


@dataclass(frozen=True)
class Launch:
    """The present launch.

    Attributes:
        number: 1 for the first launch.
        settings: Spark settings beside those of the job file.
        action: number of the size action that asked for the launch; 0 without one.
        why: reason for going back to the former settings; empty for any other launch.
        former: settings of the launch before; None unless the launch is on trial.
        left_at: Unix time at which the queries of the launch before had stopped.
        within: as in `NextLaunch`.
        trial: as in `NextLaunch`.
        tries: number of times that the launch was tried.
    """

    number: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    action: int = 0
    why: str = ""
    former: Mapping[str, str] | None = None
    left_at: float | None = None
    within: float = 0.0
    trial: float = 0.0
    tries: int = 1
