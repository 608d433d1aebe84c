"""A running job's batches → a snapshot, and a trial's batches → a judgement with what was measured."""

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

RATES_UNKNOWN = "nothing in the event log says at what rate records arrive"


@dataclass(frozen=True)
class TrialMeasurement:
    """A window, and how it was judged. `detail` says what needs a word; no `snapshot` where too little is known."""

    steady: bool
    snapshot: Snapshot | None
    window: metrics.WindowFacts | None
    detail: str


@dataclass(frozen=True)
class JobMeasurer:
    """What a snapshot needs to know of a job besides its batches. `offered` has the rates of sources whose load is
    ours to make, over the time between two moments in Unix milliseconds; those of others are as they are seen."""

    job: str
    topology: Topology
    p_max: int
    offered: Callable[[float, float], Mapping[str, float]] = lambda _begin, _end: {}

    def snapshot(self, batches: Sequence[BatchFact], growth: float | None = None) -> Snapshot | None:
        """None where it is not known what sources offer. `growth`: as the judgement of a trial says it."""
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
        """Looks on at a load that began at this moment until its batches can be judged."""
        while True:
            poll()
            batches, now = watch.since(began_ms), now_ms()
            judgement = judge(make_samples(batches, began_ms), rules, (now - began_ms) / 1000, watch.in_flight(now))
            if not isinstance(judgement, Undecided):
                return self._measured(judgement, batches)
            wait()

    def _measured(self, judgement: SteadyJob | JobBehind, batches: Sequence[BatchFact]) -> TrialMeasurement:
        """A job that fell behind is measured too: its true rates say by how much, and what would be enough."""
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
    """Where what ran is not what was asked for: a source such as Kafka has partitions of its own."""
    return "; ".join(
        f"{name} ran on {ran[name]} instances, not on the {k} asked for"
        for name, k in asked.items()
        if ran.get(name, k) != k
    )
