"""What requests and answers look like. Runs and evaluations are the journal's own types."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from autotrascale.domain import checks
from autotrascale.domain.executor_window import Resource
from autotrascale.domain.job import MAX_INSTANCES
from autotrascale.domain.target import Statistic
from autotrascale.knowledge.decision_journal.loop_status import LoopMode, LoopStatus
from autotrascale.knowledge.run_history import RunSummary
from autotrascale.plan.executor_size.size_changes import SizeChangeStage
from autotrascale.tuning import Evaluation
from autotrascale.views.explanation import OperatorExplanation
from autotrascale.web.api.job_catalog import NAME_PATTERN

MAX_LISTED = 100
MAX_TRIALS = 10_000
MAX_SEED = 2**32 - 1
MAX_POINTS = 1000
MAX_P_MAX, MAX_OPERATORS = 10_000, 200

PageLimit = Annotated[int, Field(ge=1, le=MAX_LISTED, description="How many at most.")]
PageCursor = Annotated[str, Field(max_length=200, description="`next_cursor` of the page before.")]
JobFilter = Annotated[str, Field(max_length=250, description="Only of this job.")]
Measure = Annotated[float, Field(ge=checks.SMALLEST, le=checks.LARGEST, allow_inf_nan=False)]

EXAMPLE_SNAPSHOT: Any = {
    "version": 1,
    "job": "wordcount",
    "execution": "pipelined",
    "window_seconds": 60,
    "p_max": 36,
    "source_rates": {"source": 100.0},
    "operators": {
        "source": {"upstream": [], "parallelism": 1},
        "flatmap": {
            "upstream": ["source"],
            "parallelism": 1,
            "records_in": 3000,
            "records_out": 24000,
            "useful_seconds": 60,
        },
    },
    "throughput": 50.0,
    "latency_seconds": {"mean": 0.31},
}


class StrictBody(BaseModel):
    """As strict as a file: "3" is not 3."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Budget(StrictBody):
    total_trials: int | None = Field(default=None, ge=1, le=MAX_TRIALS, description="Trials in all.")
    max_seconds: Measure | None = Field(default=None, description="No trial begins after so long in all.")


class RunRequest(Budget):
    """A tuning run. What is left out is as the job file has it."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"job": "wordcount-simulated", "rate": 300000.0, "seed": 1}]}
    )

    job: str = Field(pattern=f"^{NAME_PATTERN}$", description="A name that GET /v1/jobs lists.")
    engine: Literal["spark", "simulator"] | None = Field(None, description="What runs the job, where it has both.")
    rate: Measure | None = Field(None, description="Records per second, all sources together.")
    seed: int | None = Field(None, ge=0, le=MAX_SEED)
    warm_start: str = Field(
        "auto",
        pattern=r"^(auto|none|rate-[0-9_]{1,40}|models:/autotrascale\.[^/@]{1,250}/[0-9]{1,9})$",
        description="`auto`, `none`, `rate-R`, or a stored model of this very job.",
    )
    policy: str | None = Field(None, max_length=100, description="Who decides what to run; docs/policies.md has them.")


class ResumeRequest(Budget):
    """A wider budget; without one, a run that was interrupted goes on under its own."""


class DecideRequest(StrictBody):
    model_config = ConfigDict(json_schema_extra={"examples": [{"snapshot": EXAMPLE_SNAPSHOT, "policy": "ds2"}]})

    snapshot: dict[str, Any] = Field(description="What was measured of the job; docs/event-logs.md makes them.")
    policy: str = Field("autrascale", max_length=100)
    latency_target: Measure | None = Field(None, description="Seconds.")
    statistic: Statistic = "mean"


class DecisionView(BaseModel):
    policy: str
    parallelism: dict[str, int]
    changed: bool
    reasons: list[dict[str, Any]] = Field(description="Each with `code`, `text`, and the numbers it is made of.")


class RunPage(BaseModel):
    runs: list[RunSummary]
    next_cursor: str | None


class EvaluationPage(BaseModel):
    evaluations: list[Evaluation]
    next_after: int | None = Field(description="`after` for the next page.")


class Explanation(BaseModel):
    run_id: str
    job: str
    state: str
    rate: float
    simulated: bool
    met_target: bool
    stop_reason: str
    operators: list[OperatorExplanation]
    remarks: list[str]
    warm_start: list[str]
    summary: str


class JobView(BaseModel):
    """A job file. `problem` says why it cannot be used."""

    name: str
    job: str | None = None
    engines: list[str] = []
    rate: float | None = None
    latency_target: float | None = None
    statistic: str | None = None
    p_max: int | None = None
    total_trials: int | None = None
    problem: str | None = None


class JobPage(BaseModel):
    jobs: list[JobView]
    next_cursor: str | None


class ModelView(BaseModel):
    uri: str
    job: str
    version: int
    aliases: list[str]
    rate: float | None = None
    latency_target: float | None = None
    statistic: str | None = None
    execution: str | None = None
    simulated: bool | None = None
    operators: list[str] = []
    run_id: str | None = None
    deprecated: str | None = Field(None, description="Why no run starts from it.")
    problem: str | None = Field(None, description="Why its tags cannot be read.")


class ModelPage(BaseModel):
    models: list[ModelView]
    next_cursor: str | None


class SampleView(BaseModel):
    k: list[int]
    latency_seconds: float | None
    score: float


class ModelDetail(ModelView):
    floor: list[int]
    p_max: list[int]
    samples: list[SampleView]


# The first thing wrong is enough: of a hundred thousand numbers each may be.
Point = Annotated[
    list[Annotated[int, Field(ge=1, le=MAX_INSTANCES)]], Field(min_length=1, max_length=1000, fail_fast=True)
]


class PredictRequest(StrictBody):
    model_config = ConfigDict(json_schema_extra={"examples": [{"parallelism": [[3, 4, 12, 10]]}]})

    parallelism: list[Point] = Field(
        min_length=1, max_length=MAX_POINTS, fail_fast=True, description="In the order of `operators`."
    )


class DeprecateRequest(StrictBody):
    why: str = Field("no longer wanted", min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")
    undo: bool = Field(False, description="It may be started from again.")


class ScorePrediction(BaseModel):
    """Of the score, which is 1 for a configuration that meets the target on as little as holds the rate."""

    mean: list[float]
    std: list[float]


class PinRequest(StrictBody):
    model_config = ConfigDict(json_schema_extra={"examples": [{"parallelism": {"flatmap": 8}}]})

    parallelism: dict[
        Annotated[str, Field(min_length=1, max_length=250)], Annotated[int, Field(ge=1, le=MAX_INSTANCES)]
    ] = Field(min_length=1, max_length=MAX_OPERATORS, description="Instances of each operator that is named.")


class CommandView(BaseModel):
    """An order that its loop takes in at its next look."""

    job: str
    number: int
    what: Literal["pause", "resume", "pin", "apply"]
    parallelism: dict[str, int]
    asked_by: str
    asked_seconds_ago: float


class LoopPage(BaseModel):
    loops: list[LoopStatus]
    next_cursor: str | None


class SizeAction(BaseModel):
    """One line of the action log. Those of one change have the same number."""

    number: int
    what: SizeChangeStage
    at: float = Field(description="Seconds of Unix time.")
    policy: str = Field(description="Which of Sage's.")
    resource: Resource = Field(description="That it is about. Memory beside the heap may be given back with the heap.")
    before: dict[str, int] = Field(description="Heap and memory beside it in megabytes, cores, executors.")
    after: dict[str, int]
    reason: dict[str, Any] = Field(description="`code`, `text`, and the numbers it is made of.")


class SizeActionPage(BaseModel):
    actions: list[SizeAction]
    next_cursor: str | None


class ApplicationView(BaseModel):
    application: str
    last: SizeAction = Field(description="What was done to it last.")


class ApplicationPage(BaseModel):
    applications: list[ApplicationView]
    next_cursor: str | None


class LoopHealth(BaseModel):
    """Of a control loop that runs now, and keeps its journal beside this store."""

    job: str
    session: str
    advises: bool = Field(description="It only says what it would do.")
    state: LoopMode
    written_seconds_ago: float = Field(description="Since its last look was written down.")
    measured_seconds_ago: float | None = Field(description="Age of the newest metrics that it believed.")
    decided_seconds_ago: float | None = Field(description="Since it last could decide.")
    looks: int
    held_in_a_row: int = Field(description="Looks up to now that could not be decided on.")
    holds_for: str | None = Field(description="Why the last of them was not: its code.")
    target_met: bool | None = Field(description="Whether the latency was within the target when it was last measured.")


class Health(BaseModel):
    status: Literal["ok", "failing"]
    problems: list[str]
    store_reachable: bool
    store_seconds_ago: float | None = Field(description="Since the store last answered.")
    queue_seconds_ago: float = Field(description="Since the queue was last looked at.")
    evaluation_seconds_ago: float | None = Field(description="Since an evaluation was last seen to finish.")
    heartbeat_seconds_ago: float | None = Field(description="Of the running run that has been silent longest.")
    queued: int
    running: int
    jobs: int
    broken_jobs: int
    loops: list[LoopHealth]
