"""A running job's batches → a snapshot; a trial's batches → a judgement with its measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from autotrascale.analyze import metrics
from autotrascale.analyze.critical.bottleneck_shares import measure_critical
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.live.query_run import QueryWatch, make_samples
from autotrascale.analyze.stability import JobBehind, StabilityRules, SteadyJob, Undecided, judge
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.topology import Topology

RATES_UNKNOWN = "the event log does not hold the input rate"


@dataclass(frozen=True)
class TrialMeasurement:
    """A window with its judgement. `detail` explains it. `snapshot` is None where too little is known."""

    steady: bool
    snapshot: Snapshot | None
    window: metrics.WindowFacts | None
    detail: str


@dataclass(frozen=True)
class JobMeasurer:
    """Makes snapshots of one job from its batches.

    `offered` returns the rates of generated sources, in records/s, between two moments in Unix milliseconds. The rates
    of other sources are observed.
    """

    job: str
    topology: Topology
    p_max: int
    offered: Callable[[float, float], Mapping[str, float]] = lambda _begin, _end: {}

    def snapshot(self, batches: Sequence[BatchFact], growth: float | None = None) -> Snapshot | None:
        """Return a snapshot, None where the sources' rates are unknown. `growth` is c from the judgement of a trial."""
        offered = self.offered(batches[0].started_ms, batches[-1].committed_ms)
        rates = {**(metrics.measure_source_rates(self.topology, batches) or {}), **offered}
        if not rates.keys() >= set(self.topology.sources):
            return None
        return replace(
            metrics.take_snapshot(self.job, self.topology, self.p_max, rates, batches, growth=growth),
            critical=measure_critical(batches),
        )

    def trial(
        self,
        watch: QueryWatch,
        rules: StabilityRules,
        began_ms: float,
        *,
        poll: Callable[[], None],
        now_ms: Callable[[], float],
        wait: Callable[[], None],
    ) -> TrialMeasurement:
        """Observe a load until its batches can be judged.

        Args:
            watch: the batches of the query run.
            rules: the rules of the judgement.
            began_ms: begin of the load, in Unix milliseconds.
            poll: reads the new facts of `watch`.
            now_ms: returns the time in Unix milliseconds.
            wait: pauses between two looks.
        """
        while True:
            poll()
            batches, now = watch.since(began_ms), now_ms()
            judgement = judge(make_samples(batches, began_ms), rules, (now - began_ms) / 1000, watch.in_flight(now))
            if not isinstance(judgement, Undecided):
                return self._measured(judgement, batches)
            wait()

    def _measured(self, judgement: SteadyJob | JobBehind, batches: Sequence[BatchFact]) -> TrialMeasurement:
        """Measure a judged trial. A job that fell behind is measured too: its true rates show by how much."""
        if isinstance(judgement, SteadyJob):
            steady, detail, taken, growth = True, judgement.note, batches[-judgement.batches :], None
        else:
            steady, detail, taken, growth = False, judgement.reason, batches[1:] or batches, judgement.growth
        if not taken:
            return TrialMeasurement(steady, None, None, detail)
        snapshot = self.snapshot(taken, growth)
        notes = [detail] if snapshot else [detail, RATES_UNKNOWN]
        return TrialMeasurement(steady, snapshot, metrics.measure_window(taken), "; ".join(filter(None, notes)))


def describe_difference(asked: Mapping[str, int], ran: Mapping[str, int]) -> str:
    """Return a description of the operators whose parallelism differs from the request; empty without any.

    A source such as Kafka has its own number of partitions.
    """
    return "; ".join(
        f"{name} ran on {ran[name]} instances instead of the requested {k}"
        for name, k in asked.items()
        if ran.get(name, k) != k
    )
