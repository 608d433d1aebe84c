"""One executor as its driver sees it, and how the whole set stands to what was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from autotrascale.plan.formatting import format_seconds, join_names

# A cluster that has room starts an executor in less, on a busy machine too.
GRANT_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class RegisteredExecutor:
    """`cores`, `slots` and `active_tasks` are None, `host` is empty, where the driver does not know them yet."""

    id: str
    host: str
    cores: int | None
    slots: int | None  # tasks that it runs at once: its cores, unless a task takes several (`spark.task.cpus`)
    active_tasks: int | None
    since: float  # Unix time of its registration
    leaving_since: float | None = None  # it takes no more tasks from then on, and ends when it has nothing left to do

    @property
    def leaving(self) -> bool:
        return self.leaving_since is not None


@dataclass(frozen=True)
class ExecutorSet:
    """`asked` is None until somebody asks: the cluster then gives what the application's settings say.
    `waiting_seconds`: for how long fewer have been there than were asked for."""

    executors: tuple[RegisteredExecutor, ...]
    asked: int | None
    waiting_seconds: float
    now: float

    @property
    def staying(self) -> tuple[RegisteredExecutor, ...]:
        return tuple(each for each in self.executors if not each.leaving)

    @property
    def missing(self) -> int:
        return max(0, (self.asked or 0) - len(self.staying))

    @property
    def surplus(self) -> int:
        """More than were asked for: one that was released has come back, or was never released."""
        return 0 if self.asked is None else max(0, len(self.staying) - self.asked)

    def not_granted(self, patience: float = GRANT_TIMEOUT_SECONDS) -> str:
        """A line for people; empty while there is nothing to complain of."""
        if not self.missing or self.waiting_seconds < patience:
            return ""
        return (
            f"{self.missing} of {self.asked} executors have not come in {format_seconds(self.waiting_seconds)}: the cluster"
            " has no free cores or memory for them, or spark.cores.max or a quota forbids more"
        )

    def not_gone(self, patience: float = GRANT_TIMEOUT_SECONDS) -> str:
        """The same of executors that do not end."""
        stuck = [each.id for each in self.executors if self.now - (each.leaving_since or self.now) >= patience]
        if not stuck:
            return ""
        return f"executor {join_names(stuck)} was released over {format_seconds(patience)} ago: a task or its shuffle files hold it"
