"""Executors as the driver sees them, compared with the number that was requested."""

from __future__ import annotations

from dataclasses import dataclass

from autotrascale.plan.formatting import format_seconds, join_names

# A cluster with free resources starts an executor sooner, on a busy machine too.
GRANT_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class RegisteredExecutor:
    """An executor that is registered with the driver.

    `cores`, `slots` and `active_tasks` are None, and `host` is empty, while the driver does not know them. `slots`:
    tasks that run at once; fewer than `cores` if a task takes several (`spark.task.cpus`). `since`: Unix time of the
    registration. `leaving_since`: from then on it takes no tasks, and ends once its tasks are done.
    """

    id: str
    host: str
    cores: int | None
    slots: int | None
    active_tasks: int | None
    since: float
    leaving_since: float | None = None

    @property
    def leaving(self) -> bool:
        return self.leaving_since is not None


@dataclass(frozen=True)
class ExecutorSet:
    """All executors at the Unix time `now`.

    `requested`: None before the first request; then the application's settings decide. `waiting_seconds`: for how long
    there have been fewer executors than requested.
    """

    executors: tuple[RegisteredExecutor, ...]
    requested: int | None
    waiting_seconds: float
    now: float

    @property
    def staying(self) -> tuple[RegisteredExecutor, ...]:
        return tuple(each for each in self.executors if not each.leaving)

    @property
    def missing(self) -> int:
        return max(0, (self.requested or 0) - len(self.staying))

    def explain_missing(self, timeout_seconds: float = GRANT_TIMEOUT_SECONDS) -> str:
        """Return one line about executors that the cluster has not granted within the timeout, else an empty string."""
        if not self.missing or self.waiting_seconds < timeout_seconds:
            return ""
        waited = format_seconds(self.waiting_seconds)
        return (
            f"the cluster has not granted {self.missing} of {self.requested} executors for {waited}:"
            " it lacks free cores or memory, or spark.cores.max or a quota forbids more"
        )

    def explain_not_released(self, timeout_seconds: float = GRANT_TIMEOUT_SECONDS) -> str:
        """Return one line about executors that still run long after their release, else an empty string."""
        stuck = [each.id for each in self.executors if self.now - (each.leaving_since or self.now) >= timeout_seconds]
        if not stuck:
            return ""
        waited = format_seconds(timeout_seconds)
        return (
            f"executor {join_names(stuck)} still runs over {waited} after its release: a task or shuffle files hold it"
        )
