"""Simulated jobs calibrated to published figures. The calibration is ours; the latencies are simulated.

| preset | after | calibrated to |
|---|---|---|
| WORDCOUNT | AuTraScale §V, 350k/s, 180 ms | floor (3, 4, 12, 10); Table II: 172, 160, 246 ms |
| WORDCOUNT_SMALL | AuTraScale §II, 300k/s | 150k, 250k, 275k/s at p = 1, 2, 3; 100, 125 ms at p = 5, 6 |
| YAHOO | AuTraScale §V, 34k/s, 300 ms | (4, 2, 1, 1, 34) from ones at 60k/s, which Redis caps; Table III: 224–276 ms |
| SPARK_WORDCOUNT | local Spark, 16 slots | batches of 511, 392, 675 ms at k = 1, 4, 8 and 20k rows/s |
| SPARK_STALLED | local Spark, 16 slots, 5k rows/s, 1 ms stalls | diverges at k = 4, 1–1.8 s at 8, 0.7 s at 16 |

Some rows of the paper contradict each other, such as 120 and 242 ms at (40,40,40,33) and (40,33,40,40). The job lies
between them, or follows the floor; the paper's 338k/s at (2, 1, 8, 8) does not fit its floor. Its four scores fit with
α = 0.8, so its threshold of 0.9 corresponds to w = 1 (tests/golden/benefit.json). Our defaults are 0.5 and 0.5.
`Case.floor`, `.latency` and `.optimum()` come with each; `plain(case.job)` is its section of a job file.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.simulator.simulated_job import (
    MicroBatch,
    SharedMachine,
    SimulatedJob,
    SimulatedOperator,
    SimulatedRescaleCosts,
)
from benchmarks.workloads.case import Case, find_throughput_floor


def _chain(*names: str, stateful: str) -> Topology:
    chain = Topology.chain(*names)
    return Topology({name: Operator(op.upstream, stateful=name == stateful) for name, op in chain.operators.items()})


def _preset(
    name: str, job: SimulatedJob, topology: Topology, rate: float, latency_target: float, p_max: int = 40
) -> Case:
    rates = dict.fromkeys(topology.sources, rate)
    floor = find_throughput_floor(job, topology, rates, p_max)
    if floor is None:
        raise InputError(f"preset {name}", f"has no floor within p_max = {p_max}", seen=rate, remedy="lower the rate")
    return Case(name, 0, job, topology, rates, floor, latency_target, p_max)


_WORDS = _chain("source", "flatmap", "count", "sink", stateful="count")


def _wordcount() -> Case:
    def operator(load: float, arriving: float, selectivity: float = 1.0) -> SimulatedOperator:
        return SimulatedOperator(
            service_seconds=load / arriving,
            selectivity=selectivity,
            hop_seconds=0.0276,
            coherency=0.0096,
            crosstalk=2.9e-4,
        )

    lines, words = 350e3, 1050e3  # three words to a line
    job = SimulatedJob(
        operators={
            "source": operator(2.9, lines),
            "flatmap": operator(3.4, lines, selectivity=3.0),
            "count": operator(9.9, words),
            "sink": operator(8.83, words),
        },
        buffer_records=460.0,
        channel_seconds=2.6e-6,
        machine=SharedMachine(cores=60, contention=0.56),  # three hosts of 20 cores
        rescale=SimulatedRescaleCosts(fixed_seconds=20.0),
    )
    return _preset("wordcount", job, _WORDS, lines, latency_target=0.18)


def _wordcount_small() -> Case:
    def operator(records_per_second: float, coherency: float) -> SimulatedOperator:
        return SimulatedOperator(service_seconds=1 / records_per_second, hop_seconds=0.0104, coherency=coherency)

    job = SimulatedJob(
        operators={
            "source": operator(600e3, 0.05),
            "flatmap": operator(150e3, 0.2),
            "count": operator(184.55e3, 0.4864),
            "sink": operator(600e3, 0.05),
        },
        buffer_records=10.44,
        channel_seconds=7.65e-4,
        rescale=SimulatedRescaleCosts(fixed_seconds=20.0),
    )
    return _preset("wordcount-small", job, _WORDS, 300e3, latency_target=0.12, p_max=6)


def _yahoo() -> Case:
    """Return the Yahoo job: DS2's rule gives (4, 2, 1, 1, 34) at 60k events/s; Redis takes 12.5k joined ads/s."""
    events, ads = 60e3, 20e3  # the filter keeps one event in three
    job = SimulatedJob(
        operators={
            "source": SimulatedOperator(service_seconds=3.6 / events, hop_seconds=0.004),
            "parse": SimulatedOperator(service_seconds=1.6 / events, hop_seconds=0.004),
            "filter": SimulatedOperator(service_seconds=0.6 / events, selectivity=1 / 3, hop_seconds=0.004),
            "project": SimulatedOperator(service_seconds=0.5 / ads, hop_seconds=0.004),
            "store": SimulatedOperator(service_seconds=33.4 / ads, hop_seconds=0.004, external_limit=12.5e3),
        },
        queueing="partitioned",
        buffer_records=52.0,
        rescale=SimulatedRescaleCosts(fixed_seconds=20.0),
    )
    topology = _chain("source", "parse", "filter", "project", "store", stateful="store")
    return _preset("yahoo", job, topology, 34e3, latency_target=0.3)


_LOCAL_SPARK = MicroBatch(planning_seconds=0.0171, task_seconds=0.008, slots=16, longest_seconds=10.0)
_COMMIT = 0.0416  # seconds for fsync of one state partition


def _spark_wordcount() -> Case:
    rows = 20e3
    loads = {"source": 0.12, "flatmap": 0.25, "count": 0.35, "sink": 0.1026}  # 0.8226 in all
    return _preset("spark-wordcount", _local_spark(loads, rows), _WORDS, rows, latency_target=0.55, p_max=16)


def _spark_stalled() -> Case:
    rows = 5e3
    loads = {"source": 0.1, "flatmap": 5.0, "count": 0.2, "sink": 0.05}  # 1 ms of stall for each row
    return _preset("spark-stalled", _local_spark(loads, rows), _WORDS, rows, latency_target=1.2, p_max=16)


def _local_spark(loads: Mapping[str, float], rows: float) -> SimulatedJob:
    operators = {
        name: SimulatedOperator(service_seconds=load / rows, commit_seconds=_COMMIT if name == "count" else 0.0)
        for name, load in loads.items()
    }
    rescale = SimulatedRescaleCosts(fixed_seconds=2.0, partition_seconds=0.05)
    return SimulatedJob(operators, execution="micro-batch", noise=0.08, batch=_LOCAL_SPARK, rescale=rescale)


WORDCOUNT = _wordcount()
WORDCOUNT_SMALL = _wordcount_small()
YAHOO = _yahoo()
SPARK_WORDCOUNT = _spark_wordcount()
SPARK_STALLED = _spark_stalled()

PRESETS: Mapping[str, Case] = {
    case.family: case for case in (WORDCOUNT, WORDCOUNT_SMALL, YAHOO, SPARK_WORDCOUNT, SPARK_STALLED)
}
