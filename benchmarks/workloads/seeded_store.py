"""A store with something in it, for pages and benchmarks to show: simulated jobs, tuned and kept by the real code.

    python -m benchmarks.workloads.seeded_store FOLDER       # then: autotrascale serve --store sqlite:///FOLDER/mlflow.db

Runs go through the tuning journal and loops through the journal of decisions, so what is stored is what the commands
store. All of it is simulated, and says so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.execute.simulator.live_job import SimulatedLiveJob
from autotrascale.execute.simulator.rate_functions import Noisy, RateFunction, Sine
from autotrascale.execute.simulator.simulated_job import (
    MicroBatch,
    SimulatedJob,
    SimulatedOperator,
    SimulatedRescaleCosts,
)
from autotrascale.knowledge.decision_journal.journal import FINISHED, DecisionJournal, JournalSession, SessionHeader
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_card import ModelCard
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.knowledge.run_journal import RunJournal
from autotrascale.knowledge.run_json import ModelSource
from autotrascale.knowledge.run_json import RunOpening as RunOpening
from autotrascale.loop import Loop
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import Rules
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.tuning import TuningSettings, tune
from benchmarks.workloads import seeded_sizes
from benchmarks.workloads.case import Case
from benchmarks.workloads.presets import SPARK_STALLED, WORDCOUNT

HOUR = 3600.0
KNOBS = Knobs(
    interval_seconds=60.0,
    running_seconds=120.0,
    catch_up_seconds=300.0,
    backlog_seconds=1.5,
    scale_down_delay_seconds=1800.0,
)
EXECUTOR = ExecutorSize(cores=2, memory="4g", price=0.12)


@dataclass
class ScaledJob:
    """A job that a loop of this process keeps: `turn` is one interval more of it."""

    job: Job
    loop: Loop
    session: JournalSession

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.live.wait(self.loop.rules.knobs.interval_seconds)
            self.loop.turn()

    def end(self, why: str = FINISHED) -> None:
        self.session.end(why)


@dataclass(frozen=True)
class Seeded:
    """`runs` by what became of them; `kept` live on until they are ended."""

    runs: dict[str, str]
    kept: dict[str, ScaledJob]

    def close(self) -> None:
        for each in self.kept.values():
            each.end()


def seed(store: MlflowStore, decisions: DecisionJournal, hours: float = 12.0) -> Seeded:
    """Four runs, one that missed and one that was cut short among them, three jobs that are kept, and an application
    whose executors were sized."""
    seeded_sizes.write_size_actions(decisions, "clicks")
    words = job_of("wordcount", WORDCOUNT)
    near = replace(words, target=Target(0.14))  # the floor does not do, so there is something to search
    first, model = tune_job(store, near, WORDCOUNT.job, TuningSettings(seed=1))
    known = () if model is None else (ModelSource("the run at 350,000/s", model),)
    runs = {
        "met": first,
        "warm": tune_job(store, near.at_rate(300_000.0), WORDCOUNT.job, TuningSettings(seed=2), known)[0],
        "missed": tune_job(
            store, replace(words, target=Target(0.02)), WORDCOUNT.job, TuningSettings(seed=3, total_trials=8)
        )[0],
        "cut short": tune_job(
            store, job_of("stalled-wordcount", SPARK_STALLED), SPARK_STALLED.job, TuningSettings(seed=4, total_trials=3)
        )[0],
    }
    return Seeded(
        runs,
        {
            "wordcount": scale_job(decisions, words, WORDCOUNT.job, _day(WORDCOUNT.rate, 0.3, 0.9), hours),
            "stalled-wordcount": scale_job(
                decisions,
                job_of("stalled-wordcount", SPARK_STALLED),
                SPARK_STALLED.job,
                _day(SPARK_STALLED.rate, 0.2, 0.85),
                hours,
                advise=True,
            ),
            "clicks": scale_job(decisions, CLICKS, CLICKS_JOB, _day(20_000.0, 0.15, 0.9), hours, executor=EXECUTOR),
        },
    )


def job_of(name: str, case: Case) -> Job:
    return Job(name, case.topology, case.p_max, case.source_rates, Target(case.latency_target))


def tune_job(
    store: MlflowStore, job: Job, simulated: SimulatedJob, settings: TuningSettings, sources: Sequence[ModelSource] = ()
) -> tuple[str, BenefitModel | None]:
    """The run's id, and the model that it left."""
    opening = RunOpening(job, "simulator", True, settings, None, "/nowhere/job.yaml", {"job": job.name}, tuple(sources))
    engine = SimulatorEngine(simulated, job.topology, p_max=job.p_max, seed=settings.seed, name=job.name)
    with engine, RunJournal.start(store, opening) as journal:
        outcome = tune(job, engine, settings, sources=[each.model for each in sources], journal=journal)
        journal.conclude(outcome)
        if outcome.model is not None and outcome.met_target:
            card = ModelCard.of(outcome.model, job, simulated=True, run_id=journal.run_id)
            ModelLibrary(journal.store).register(outcome.model, card, journal.run_id)
        journal.finish()
    return journal.run_id, outcome.model


def scale_job(
    decisions: DecisionJournal,
    job: Job,
    simulated: SimulatedJob,
    schedule: RateFunction,
    hours: float,
    *,
    executor: ExecutorSize | None = None,
    advise: bool = False,
) -> ScaledJob:
    """So many simulated hours of it, and it goes on."""
    live = SimulatedLiveJob(simulated, job.topology, job.source_rates, schedule, p_max=job.p_max, seed=1, name=job.name)
    opening = SessionHeader.of(job, "simulator", simulated=True, advise=advise, executor=executor)
    session = decisions.open_session(opening, anew=True)
    initial = {name: max(1, job.p_max // 3) for name in job.topology}
    rules = Rules(AutoscalingSettings(job.target, noise=max(simulated.noise, 0.05)), KNOBS, advise=advise)
    if advise:  # somebody else runs it
        live.start(initial)
    loop = Loop(live, rules, initial=initial, state=session.state, journal=session, orders=session.commands_after)
    loop.run(hours * HOUR)
    made = ScaledJob(job, loop, session)
    made.turn()
    return made


def _day(rate: float, low: float, high: float) -> RateFunction:
    """Between these shares of the rate, twice in 12 hours, so that a short time shows both ways."""
    return Noisy(Sine(rate * (low + high) / 2, rate * (high - low) / 2, period=6 * HOUR), 0.03, 1)


# A program of somebody else's, as one operator: what it has more or less of is executors.
CLICKS_JOB = SimulatedJob(
    {"clicks": SimulatedOperator(service_seconds=2.6 / 20_000.0)},
    execution="micro-batch",
    noise=0.05,
    batch=MicroBatch(planning_seconds=0.12, task_seconds=0.01, slots=8, longest_seconds=10.0),
    rescale=SimulatedRescaleCosts(fixed_seconds=6.0),
)
CLICKS = Job("clicks", Topology({"clicks": Operator(stateful=True)}), 8, {"clicks": 20_000.0}, Target(1.0))


def main(folder: str) -> None:
    place = Path(folder).absolute()
    place.mkdir(parents=True, exist_ok=True)
    decisions = DecisionJournal(place / "decisions.db")
    made = seed(MlflowStore(f"sqlite:///{place / 'mlflow.db'}"), decisions)
    made.close()
    decisions.close()
    print(
        f"{len(made.runs)} runs and {len(made.kept)} kept jobs, all simulated: autotrascale serve --store"
        f" sqlite:///{place / 'mlflow.db'}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
