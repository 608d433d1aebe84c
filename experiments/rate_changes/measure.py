"""What a change of rate costs: from a model of the rate before, beside DS2 (AuTraScale §V-D, Fig. 8)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.plan.policies.registry import create
from autotrascale.plan.search.ask_tell import AskTellStudy
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.sizing.sizing import Sizing, size
from autotrascale.tuning import Outcome, TuningSettings, tune
from benchmarks.workloads.case import Case
from benchmarks.workloads.families import draw_case
from experiments.shared.driving import TOLERANCE, engine, find_floor, truth, window
from experiments.shared.jobs import at_rate, job
from experiments.shared.published import published

SEEDS = 30
MOST_RUNS = 20
MOST_STEPS = 10
USUAL = 0.7  # utilisation that the Flink operator's autoscaler, which sizes as DS2 does, aims at unless told otherwise
RATIO = published("ds2/target-ratio")
QUERIES = ("q5", "q11")
# How much of their time sources are busy at the new rate, where DS2 is run offline: as in its authors' example, and
# others.
EXAMPLE = round(published("ds2/offline/source")["observed"] / published("ds2/offline/source")["true"], 3)
BUSY = (0.5, 0.6, EXAMPLE, 0.8, 0.9)
SCORE = published("elasticity/score")
# Of the rate that a drawn job was tuned at; the queries' rates are the paper's. In pipelined families:
# in batches DS2 has to be told how long a batch may be, and is no rival.
FACTORS = (0.7, 1.4)
FAMILIES = ("contention", "dominant", "diamond", "skewed")
NUMBERS = range(100, 103)  # jobs of each family; no other document uses these
UTILISATIONS = range(100, 25, -5)  # %, from the fullest


def cases() -> Sequence[Mapping[str, Any]]:
    paper = [{"job": name, "factor": None, "seed": seed} for name in QUERIES for seed in range(SEEDS)]
    offline = [{"job": name, "busy": busy, "seed": seed} for name in QUERIES for busy in BUSY for seed in range(SEEDS)]
    drawn = [
        {"job": f"{family}/{number}", "factor": factor, "seed": 0}
        for family in FAMILIES
        for number in NUMBERS
        for factor in FACTORS
    ]
    return [*paper, *offline, *drawn]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of each method; nothing of a job that nobody can run at the other rate within what the stop rule allows."""
    before, after = _rates(case)
    seed = case["seed"]
    if after is None:
        return {}
    if "busy" in case:
        before, after = _with_source(before, case["busy"], after.rate), _with_source(after, case["busy"], after.rate)
        offline = _ds2_offline(before, after, seed)
        return {
            "ds2-offline": offline,
            "transfer": _default(before, after, seed, warm=True),
            "transfer-on": _default(before, after, seed, warm=True, least_runs=offline["runs"]),
        }
    share, ratio = _headroom(before, seed), _ds2(before, after, 1.0, seed, RATIO)
    return {
        "ds2": _ds2(before, after, 1.0, seed),
        "ds2-ratio": ratio,
        "ds2-usual": _ds2(before, after, USUAL, seed),
        "ds2-headroom": {**_ds2(before, after, share, seed), "utilisation": share},
        "ds2-hindsight": _hindsight(before, after, seed),
        "algorithm-2": _algorithm_2(before, after, seed),
        "transfer": _default(before, after, seed, warm=True),
        "transfer-on": _default(before, after, seed, warm=True, least_runs=ratio["runs"]),
        "cold": _default(before, after, seed, warm=False),
    }


def _rates(case: Mapping[str, Any]) -> tuple[Case, Case | None]:
    """The job at the rate before, and at the one after."""
    if "/" in case["job"]:
        family, number = case["job"].split("/")
        drawn = draw_case(family, int(number))
        return drawn, drawn.at_rate(case["factor"])
    change = published(f"{case['job']}/change")
    known = replace(job(case["job"]), alpha=SCORE["alpha"], over_allocation=SCORE["over_allocation"])
    return at_rate(known, change["from"]), at_rate(known, change["to"])


def _with_source(case: Case, busy: float, rate: float) -> Case:
    """The same job with a source that is busy for this share of its time at `rate`."""
    operators = dict(case.job.operators)
    for name in case.topology.sources:
        operators[name] = replace(operators[name], service_seconds=busy / rate)
    return at_rate(replace(case, job=replace(case.job, operators=operators)), case.rate)


# -- DS2 ---------------------------------------------------------------------------------------------------------------


def _ds2(before: Case, after: Case, utilisation: float, seed: int, ratio: float = 0.0) -> Mapping[str, Any]:
    """From what it has at the rate before, until it says the same again: each operator busy for at most `utilisation`
    of its time. Throughput is all it asks for."""
    start = _sized(before, utilisation, seed, ratio)
    return _ended(after, _until_still(after, engine(after, seed), start, partial(_more, after, utilisation), ratio))


def _ds2_offline(before: Case, after: Case, seed: int) -> Mapping[str, Any]:
    """From the floor of the rate before, by what its program makes of the logs of each run when it is given nothing
    else."""
    return _ended(after, _until_still(after, engine(after, seed), before.floor, partial(_by_logs, after), 0.0))


def _ended(case: Case, found: tuple[tuple[int, ...], int]) -> Mapping[str, Any]:
    k, seen = found
    return {"runs": seen, "iterations": seen - 1, **truth(case, k)}


def _sized(case: Case, utilisation: float, seed: int, ratio: float = 0.0) -> tuple[int, ...]:
    """What DS2 comes to from ones."""
    ones = tuple(1 for _ in case.topology)
    return _until_still(case, engine(case, seed + 1000), ones, partial(_more, case, utilisation), ratio)[0]


def _until_still(
    case: Case, running: SimulatorEngine, k: tuple[int, ...], asked: Callable[[Snapshot], tuple[int, ...]], ratio: float
) -> tuple[tuple[int, ...], int]:
    """And how many runs that took. With a `ratio` it is DS2 as its authors run it (§4.2): one instance less is not
    worth a redeployment, and where it would stand still with less than `ratio` of the rate, every operator gets as many
    times more as is missing."""
    for seen in range(1, MOST_STEPS + 1):
        trial = running.run(case.topology.named(k), case.source_rates)
        assert trial.snapshot is not None
        wanted = asked(trial.snapshot)
        share = (trial.snapshot.throughput or 0.0) / case.rate
        if 0 < share < ratio and all(new <= now for new, now in zip(wanted, k, strict=True)):
            wanted = _adjusted(case, wanted, share)
        if wanted == k or (ratio and all(now - 1 <= new <= now for new, now in zip(wanted, k, strict=True))):
            return k, seen
        k = wanted
    return k, MOST_STEPS


def _adjusted(case: Case, k: tuple[int, ...], share: float) -> tuple[int, ...]:
    """All but sources, rounded up from whole instances, as the program of DS2's authors does it."""
    sources = case.topology.sources
    return tuple(
        each if name in sources else min(case.p_max, math.ceil(each / share))
        for name, each in zip(case.topology, k, strict=True)
    )


def _more(case: Case, utilisation: float, snapshot: Snapshot) -> tuple[int, ...]:
    """An overloaded source takes in less than is offered: DS2 is told what is offered, over what may be used."""
    return _for_rates(case, snapshot, {name: rate / utilisation for name, rate in case.source_rates.items()})


def _by_logs(case: Case, snapshot: Snapshot) -> tuple[int, ...]:
    """For the true rates of the sources, which is what they could put out if they never waited. Sources stay."""
    sized = size(snapshot)
    assert isinstance(sized, Sizing)
    capacity = dict(zip(sized.operators, sized.capacity, strict=True))
    offered = {name: (capacity[name] or 0.0) * snapshot.parallelism[name] for name in case.topology.sources}
    wanted = case.topology.named(_for_rates(case, snapshot, offered))
    return case.topology.vector({**wanted, **{name: snapshot.parallelism[name] for name in case.topology.sources}})


def _for_rates(case: Case, snapshot: Snapshot, rates: Mapping[str, float]) -> tuple[int, ...]:
    return case.topology.vector(create("ds2").decide(replace(snapshot, source_rates=dict(rates))).parallelism)


def _headroom(before: Case, seed: int) -> float:
    """The fullest utilisation, in steps of 5 %, whose DS2 held the target at the rate before: what somebody who runs
    DS2 and watches the latency would have set."""
    for percent in UTILISATIONS:
        k = _sized(before, percent / 100, seed)
        latency = before.latency([k])[0]
        enough = before.compiled.steady(k).throughput[0] >= before.rate * (1 - TOLERANCE)
        if enough and latency <= before.latency_target:
            return percent / 100
    return 0.3


def _hindsight(before: Case, after: Case, seed: int) -> Mapping[str, Any]:
    """The cheapest DS2 that truly holds QoS at the new rate, of all utilisations: equal quality, at the least that DS2
    can have it for. Nobody knows that utilisation beforehand. Where none holds, the last."""
    tried = [{**_ds2(before, after, percent / 100, seed), "utilisation": percent / 100} for percent in UTILISATIONS]
    return min((each for each in tried if each["qos"]), key=lambda each: each["instances"], default=tried[-1])


# -- the searches ------------------------------------------------------------------------------------------------------


def _algorithm_2(before: Case, after: Case, seed: int) -> Mapping[str, Any]:
    """To the letter: Algorithm 1 at the rate before leaves the model, the floor is looked for anew."""
    first, _ = _searched(before, before.floor, seed, None)
    source = first.model(before.rate)
    running = engine(after, seed)
    search = find_floor(after, running, before.floor)
    floor = after.topology.vector(search.result.parallelism)
    study, runs = _searched(after, floor, seed, source)
    return {"runs": running.runs + runs, "iterations": running.runs + runs - 1, **truth(after, study.best.parallelism)}


def _searched(case: Case, floor: tuple[int, ...], seed: int, source: BenefitModel | None) -> tuple[AskTellStudy, int]:
    study = AskTellStudy(
        floor,
        case.p_max,
        case.latency_target,
        case.alpha,
        case.over_allocation,
        seed,
        source=source,
        faithful=True,
        max_runs=MOST_RUNS,
    )
    running = engine(case, seed + 2000)
    while not study.finished:
        k = study.ask()
        _tell(study, k, window(running.run(case.topology.named(k), case.source_rates), case).latency)
    return study, running.runs


def _default(before: Case, after: Case, seed: int, *, warm: bool, least_runs: int = 0) -> Mapping[str, Any]:
    """As `tune` does it. `least_runs`: a search that is done sooner is asked for more, and ends with the best of those
    that it trusts."""
    sources = [model] if warm and (model := _model(before, seed)) else []
    running = engine(after, seed)
    outcome = tune(_job(after), running, _settings(after, seed), sources=sources)
    k = after.topology.vector(outcome.best.parallelism)
    if outcome.met_target and running.runs < least_runs:
        k = _gone_on(after, running, outcome, sources, seed, least_runs)
    return {"runs": running.runs, "iterations": running.runs - 1, "stop": outcome.stop_reason, **truth(after, k)}


def _gone_on(
    case: Case, running: SimulatorEngine, outcome: Outcome, sources: Sequence[BenefitModel], seed: int, least_runs: int
) -> tuple[int, ...]:
    """The study of a tuning run, told what was run and asked on."""
    study = AskTellStudy(
        case.topology.vector(outcome.floor),
        case.p_max,
        case.latency_target,
        case.alpha,
        case.over_allocation,
        seed,
        source=list(sources),
        sizing=outcome.sizing,
        max_runs=MOST_RUNS,
    )
    for each in outcome.evaluations:
        if (k := case.topology.vector(each.parallelism)) in study.lattice:
            _tell(study, k, each.latency_seconds)
    while running.runs < least_runs:
        k = study.ask()
        _tell(study, k, window(running.run(case.topology.named(k), case.source_rates), case).latency)
    return study.answer.parallelism


def _tell(study: AskTellStudy, k: tuple[int, ...], latency: float | None) -> None:
    study.tell(k, latency=latency) if latency is not None else study.tell(k, failed=True)


def _model(case: Case, seed: int) -> BenefitModel | None:
    return tune(_job(case), engine(case, seed + 1000), _settings(case, seed)).model


def _settings(case: Case, seed: int) -> TuningSettings:
    return TuningSettings(case.alpha, case.over_allocation, MOST_RUNS, seed=seed)


def _job(case: Case) -> Job:
    return Job(case.family, case.topology, case.p_max, case.source_rates, Target(case.latency_target))
