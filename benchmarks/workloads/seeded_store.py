"""A store with simulated jobs, tuned and scaled by the real code, for pages and benchmarks.

    python -m benchmarks.workloads.seeded_store FOLDER       # then: autotrascale serve --store sqlite:///FOLDER/mlflow.db

Runs go through the run journal and loops through the decision journal, so the store has the same content as after the
commands. Everything is simulated and labelled so.
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
from autotrascale.knowledge.decision_journal.journal import FINISHED, DecisionJournal
from autotrascale.knowledge.decision_journal.session_writer import JournalSession
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_card import ModelCard
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.knowledge.run_journal import RunJournal
from autotrascale.knowledge.run_json import ModelSource
from autotrascale.knowledge.run_json import RunOpening as RunOpening
from autotrascale.loop import Loop, LoopCollaborators
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
    """A job that a loop of this process scales. `turn` runs further intervals."""

    job: Job
    loop: Loop
    session: JournalSession

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.live.wait(self.loop.rules.knobs.interval_seconds)
            self.loop.run_once()

    def end(self, why: str = FINISHED) -> None:
        self.session.end(why)


@dataclass(frozen=True)
class SeededStore:
    """The content of the store: run ids by outcome, and jobs whose loops run until `close`."""

    runs: dict[str, str]
    kept: dict[str, ScaledJob]

    def close(self) -> None:
        for each in self.kept.values():
            each.end()


def seed_store(store: MlflowStore, decisions: DecisionJournal, hours: float = 12.0) -> SeededStore:
    """Fill the store and the journal, and return the content.

    The content: four tuning runs (two met their target, one missed it, one was cut short), three scaled jobs with a
    history of `hours`, and an application with size actions.
    """
    seeded_sizes.write_size_actions(decisions, "clicks")
    words = make_job("wordcount", WORDCOUNT)
    near = replace(words, target=Target(0.14))  # the floor misses this target, so there is something to search
    first, model = tune_job(store, near, WORDCOUNT.job, TuningSettings(seed=1))
    known = () if model is None else (ModelSource("the run at 350,000/s", model),)
    runs = {
        "met": first,
        "warm": tune_job(store, near.at_rate(300_000.0), WORDCOUNT.job, TuningSettings(seed=2), known)[0],
        "missed": tune_job(
            store, replace(words, target=Target(0.02)), WORDCOUNT.job, TuningSettings(seed=3, total_trials=8)
        )[0],
        "cut short": tune_job(
            store,
            make_job("stalled-wordcount", SPARK_STALLED),
            SPARK_STALLED.job,
            TuningSettings(seed=4, total_trials=3),
        )[0],
    }
    return SeededStore(
        runs,
        {
            "wordcount": scale_job(decisions, words, WORDCOUNT.job, _day(WORDCOUNT.rate, 0.3, 0.9), hours),
            "stalled-wordcount": scale_job(
                decisions,
                make_job("stalled-wordcount", SPARK_STALLED),
                SPARK_STALLED.job,
                _day(SPARK_STALLED.rate, 0.2, 0.85),
                hours,
                advise=True,
            ),
            "clicks": scale_job(decisions, CLICKS, CLICKS_JOB, _day(20_000.0, 0.15, 0.9), hours, executor=EXECUTOR),
        },
    )


def make_job(name: str, case: Case) -> Job:
    return Job(name, case.topology, case.p_max, case.source_rates, Target(case.latency_target))


def tune_job(
    store: MlflowStore, job: Job, simulated: SimulatedJob, settings: TuningSettings, sources: Sequence[ModelSource] = ()
) -> tuple[str, BenefitModel | None]:
    """Tune a job and return the id of the run and its model."""
    opening = RunOpening(job, "simulator", True, settings, None, "/nowhere/job.yaml", {"job": job.name}, tuple(sources))
    engine = SimulatorEngine(simulated, job.topology, p_max=job.p_max, seed=settings.seed, name=job.name)
    with engine, RunJournal.start(store, opening) as journal:
        outcome = tune(job, engine, settings, sources=[each.model for each in sources], journal=journal)
        journal.conclude(outcome)
        if outcome.model is not None and outcome.met_target:
            card = ModelCard.for_model(outcome.model, job, simulated=True, run_id=journal.run_id)
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
    """Run the control loop of a job for simulated `hours`, and return the job, which can run on."""
    live = SimulatedLiveJob(simulated, job.topology, job.source_rates, schedule, p_max=job.p_max, seed=1, name=job.name)
    opening = SessionHeader.of(job, "simulator", simulated=True, advise=advise, executor=executor)
    session = decisions.open_session(opening, restart_finished=True)
    initial = {name: max(1, job.p_max // 3) for name in job.topology}
    rules = Rules(AutoscalingSettings(job.target, noise=max(simulated.noise, 0.05)), KNOBS, advise=advise)
    if advise:  # the loop only advises, so the job is started here
        live.start(initial)
    loop = Loop(live, rules, initial=initial, state=session.state, around=LoopCollaborators(journal=session))
    loop.run(hours * HOUR)
    made = ScaledJob(job, loop, session)
    made.turn()
    return made


def _day(rate: float, low: float, high: float) -> RateFunction:
    """Return a rate between two shares of `rate`, with a period of 6 hours."""
    return Noisy(Sine(rate * (low + high) / 2, rate * (high - low) / 2, period=6 * HOUR), 0.03, 1)


# An adopted program, as one operator whose instances are executors.
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
    made = seed_store(MlflowStore(f"sqlite:///{place / 'mlflow.db'}"), decisions)
    made.close()
    decisions.close()
    print(
        f"{len(made.runs)} runs and {len(made.kept)} scaled jobs, all simulated: autotrascale serve --store"
        f" sqlite:///{place / 'mlflow.db'}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
