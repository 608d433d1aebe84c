"""The study as people hold it in their hands: the ask and tell of `plan`, with a loop for those who want none of their
own, and a look in notebooks.

    study = Study(floor=(3, 4, 12, 10), p_max=40, latency_target=0.18, seed=0)
    best = study.optimize(measure)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from autotrascale.domain.displayed import Displayed
from autotrascale.plan.search import ask_tell as ask_and_tell
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.search.study_runs import Best
from autotrascale.views import optimize_progress

Measure = Callable[[Point], float | None]
Callback = Callable[["Study", Point], bool | None]


class Study(Displayed, ask_and_tell.AskTellStudy):
    def optimize(
        self,
        measure: Measure,
        *,
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
        max_runs: int | None = None,
    ) -> Best | None:
        """Ask, measure, tell, until the study is finished; what to use.

        `measure(k)` gives a latency in seconds, or None where `k` failed or fell behind. What it raises ends the loop,
        and what was told before stays told. Each callback is called with the study and `k` after each run; one that
        returns True ends the loop. `max_runs`: in this call. Ctrl-C ends it as well: what was under way is forgotten,
        and calling again goes on. None is returned where nothing was told at all.
        """
        show = optimize_progress.ProgressLine(sys.stderr) if progress else None
        told = 0
        try:
            while not self.finished and (max_runs is None or told < max_runs):
                k = self._next()
                if show is not None:
                    show.running(self, k)
                latency = measure(k)
                self.tell(k, latency=latency, failed=latency is None)
                told += 1
                if show is not None:
                    show.done(self, k, latency)
                wishes = [callback(self, k) for callback in callbacks]
                if any(wishes):
                    break
        except KeyboardInterrupt:
            if show is not None:
                show.interrupted(self)
        finally:
            if show is not None:
                show.close()
        return self.answer if self.runs else None

    def _next(self) -> Point:
        """Another window where a reading is too close to the target, as a tuning run takes one; else a new run."""
        return self.unsure or self.ask()
