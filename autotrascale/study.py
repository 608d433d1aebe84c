"""The public study: ask-and-tell from `plan`, an `optimize` loop, and display in notebooks.

study = Study(floor=(3, 4, 12, 10), p_max=40, latency_target=0.18, seed=0)
best = study.optimize(measure)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from autotrascale.plan.search.ask_tell import AskTellStudy
from autotrascale.plan.search.benefit_model import BenefitModel as BenefitModel
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.search.study_runs import Best
from autotrascale.views.notebook import install_html_reprs
from autotrascale.views.optimize_progress import ProgressLine

Measure = Callable[[Point], float | None]
Callback = Callable[["Study", Point], bool | None]

install_html_reprs()


class Study(AskTellStudy):
    """A tuning study of one job at one input rate: it proposes configurations and learns from their measurements.

    A configuration `k` is a tuple with the instances of each operator.

        study = Study(floor=(3, 4, 12, 10), p_max=40, latency_target=0.18)
        while not study.finished:
            k = study.ask()
            study.tell(k, latency=measure(k))
        study.best

    Args:
        floor: least instances of each operator that sustain the input rate, each at least 1.
        p_max: most instances; one number for all operators, or one for each.
        latency_target: mean record latency to hold, in seconds.
        alpha: weight of latency against resources in the benefit score, in [0, 1], default 0.5.
        over_allocation: allowed over-allocation ratio w of the stop rule (Eq. 9), at least 0, default 0.5.
        seed: seed of the random numbers, default 0. The same seed and tells give the same proposals.
        source: benefit model, or models, of earlier studies of this job, for a warm start. Default: cold start.
        sizing: loads and execution model that `floor` was computed from, as `autotrascale.plan.sizing` measures them.
            Default: not measured.
        max_runs: budget of configurations to measure, at least 1, default 40.
        faithful: follow Algorithms 1 and 2 of the paper step by step, default False.
        settings: rarely used `SearchSettings`, such as the relative noise of a reading (default 0.05) and the
            probability of meeting the target that a run needs to be accepted (default 0.97).

    Raises:
        InputError: an argument is out of range; the message names the argument, the value and the remedy.

    Attributes:
        lattice: the configurations that may be proposed.
        benefit: the benefit score and the stop rule.
        max_runs, seed, confidence, throughput_target: as given, or as in `settings`.
    """

    def optimize(
        self,
        measure: Measure,
        *,
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
        max_runs: int | None = None,
    ) -> Best | None:
        """Ask, measure and tell until the study is finished. Return the configuration to use.

        Ctrl-C ends the loop: the run in progress is discarded, runs told stay told, and another call continues.
        The same holds when `measure` raises an exception, which is passed on.

        Args:
            measure: returns the latency of a configuration in seconds, or None when it failed or fell behind.
            callbacks: each is called with the study and the configuration after every run. A callback that returns
                True ends the loop. Default: none.
            progress: write a progress line to stderr, default True.
            max_runs: measurements in this call at most. Default: limited by the budget of the study only.

        Returns:
            The answer of the study, or None when nothing was told.
        """
        line = ProgressLine(sys.stderr) if progress else None
        measured = 0
        try:
            while not self.finished and (max_runs is None or measured < max_runs):
                k = self.unsure or self.ask()
                if line is not None:
                    line.show_running(self, k)
                latency = measure(k)
                self.tell(k, latency=latency, failed=latency is None)
                measured += 1
                if line is not None:
                    line.show_result(self, k, latency)
                answers = [callback(self, k) for callback in callbacks]
                if any(answers):
                    break
        except KeyboardInterrupt:
            if line is not None:
                line.show_interruption(self)
        finally:
            if line is not None:
                line.close()
        return self.answer if self.runs else None
