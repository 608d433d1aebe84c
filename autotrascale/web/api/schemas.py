"""The schemas of requests and answers. Runs, evaluations and loops are the journals' own types."""

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

PageLimit = Annotated[int, Field(ge=1, le=MAX_LISTED, description="Most entries in the answer.")]
PageCursor = Annotated[str, Field(max_length=200, description="`next_cursor` of the previous page.")]
JobFilter = Annotated[str, Field(max_length=250, description="Only entries of this job.")]
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
    """A request body. Types are strict: "3" is not 3."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Budget(StrictBody):
    total_trials: int | None = Field(default=None, ge=1, le=MAX_TRIALS, description="Most trials in total.")
    max_seconds: Measure | None = Field(default=None, description="No trial begins after so many seconds in total.")


class RunRequest(Budget):
    """A tuning run. Missing fields have the values of the job file."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"job": "wordcount-simulated", "rate": 300000.0, "seed": 1}]}
    )

    job: str = Field(pattern=f"^{NAME_PATTERN}$", description="A name from GET /v1/jobs.")
    engine: Literal["spark", "simulator"] | None = Field(None, description="Engine, for a job file with both.")
    rate: Measure | None = Field(None, description="Records per second of all sources together.")
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="Seed of the search and of a simulated job.")
    warm_start: str = Field(
        "auto",
        pattern=r"^(auto|none|rate-[0-9_]{1,40}|models:/autotrascale\.[^/@]{1,250}/[0-9]{1,9})$",
        description="`auto`, `none`, `rate-R`, or a stored model of this job.",
    )
    policy: str | None = Field(
        None, max_length=100, description="Policy that chooses the trials; docs/explanation/policies.md lists them."
    )


class ResumeRequest(Budget):
    """A larger budget. Without one, an interrupted run continues with its own budget."""


class DecideRequest(StrictBody):
    model_config = ConfigDict(json_schema_extra={"examples": [{"snapshot": EXAMPLE_SNAPSHOT, "policy": "ds2"}]})

    snapshot: dict[str, Any] = Field(description="Measurements of a job, as docs/how-to/event-logs.md makes them.")
    policy: str = Field("autrascale", max_length=100, description="Scaling policy.")
    latency_target: Measure | None = Field(
        None, description="Latency target in seconds; without it, only the rate counts."
    )
    statistic: Statistic = Field("mean", description="Statistic of the latency that the target limits.")


class DecisionView(BaseModel):
    policy: str
    parallelism: dict[str, int]
    changed: bool
    reasons: list[dict[str, Any]] = Field(description="Each with `code`, `text`, and the numbers in the text.")


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
    """A job file. `problem`: why it cannot be used."""

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
    deprecated: str | None = Field(None, description="Why no run starts from this model.")
    problem: str | None = Field(None, description="Why the model's tags cannot be read.")


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


# Fails at the first error: a request may have a hundred thousand wrong numbers.
Point = Annotated[
    list[Annotated[int, Field(ge=1, le=MAX_INSTANCES)]], Field(min_length=1, max_length=1000, fail_fast=True)
]


class PredictRequest(StrictBody):
    model_config = ConfigDict(json_schema_extra={"examples": [{"parallelism": [[3, 4, 12, 10]]}]})

    parallelism: list[Point] = Field(
        min_length=1, max_length=MAX_POINTS, fail_fast=True, description="In the order of `operators`."
    )


class DeprecateRequest(StrictBody):
    why: str = Field(
        "no longer wanted", min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$", description="Cause, for display."
    )
    undo: bool = Field(False, description="Make the model usable again.")


class ScorePrediction(BaseModel):
    """Expected benefit scores. A configuration that meets the target with the least parallelism has a score near 1."""

    mean: list[float]
    std: list[float]


class PinRequest(StrictBody):
    model_config = ConfigDict(json_schema_extra={"examples": [{"parallelism": {"flatmap": 8}}]})

    parallelism: dict[
        Annotated[str, Field(min_length=1, max_length=250)], Annotated[int, Field(ge=1, le=MAX_INSTANCES)]
    ] = Field(min_length=1, max_length=MAX_OPERATORS, description="Instances by operator.")


class CommandView(BaseModel):
    """A command that the loop reads with its next observation."""

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
    """An entry of the log of size changes. All entries about one change have the same number."""

    number: int
    what: SizeChangeStage
    at: float = Field(description="Unix time in seconds.")
    policy: str = Field(description="Policy of Sage that asked for the change.")
    resource: Resource = Field(description="Resource that the policy is about. Other memory may change with the heap.")
    before: dict[str, int] = Field(description="Heap and other memory in megabytes, cores, executors.")
    after: dict[str, int]
    reason: dict[str, Any] = Field(description="`code`, `text`, and the numbers in the text.")


class SizeActionPage(BaseModel):
    actions: list[SizeAction]
    next_cursor: str | None


class ApplicationView(BaseModel):
    application: str
    last: SizeAction = Field(description="The last entry of its log.")


class ApplicationPage(BaseModel):
    applications: list[ApplicationView]
    next_cursor: str | None


class LoopHealth(BaseModel):
    """The health of a running control loop."""

    job: str
    session: str
    advises: bool = Field(description="The loop only advises.")
    state: LoopMode
    written_seconds_ago: float = Field(description="Age of the last observation.")
    measured_seconds_ago: float | None = Field(description="Age of the newest metrics that passed the checks.")
    decided_seconds_ago: float | None = Field(description="Time since the last decision.")
    looks: int
    held_in_a_row: int = Field(description="Observations since the last decision, none of which allowed a decision.")
    holds_for: str | None = Field(description="Reason code of the last of them.")
    target_met: bool | None = Field(description="Whether the last measured latency is within the target.")


class Health(BaseModel):
    status: Literal["ok", "failing"]
    problems: list[str]
    store_reachable: bool
    store_seconds_ago: float | None = Field(description="Time since the store answered.")
    queue_seconds_ago: float = Field(description="Time since the queue was checked.")
    evaluation_seconds_ago: float | None = Field(description="Time since an evaluation finished.")
    heartbeat_seconds_ago: float | None = Field(description="Longest silence of a running tuning run.")
    queued: int
    running: int
    jobs: int
    broken_jobs: int
    loops: list[LoopHealth]
