"""The card of a stored benefit model, and the choice of stored models that a run starts from.

The nearest model is nearest in the logarithm of the rate: 50/s and 200/s are both one doubling away from 100/s. Rates
are compared here as numbers, because a store compares its tags as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import Execution
from autotrascale.domain.target import Statistic
from autotrascale.knowledge.run_json import digest_json
from autotrascale.plan.search.benefit_model import ANCESTORS, BenefitModel


@dataclass(frozen=True)
class ModelCard:
    """The tags of a model version.

    Args:
        job: name of the job.
        rate: input rate in records per second.
        topology: fingerprint of the dataflow graph.
        operators: names of the operators, in the order of the model's vectors.
        latency_target: target in seconds.
        statistic: statistic of the latency that the target is on.
        execution: execution model; None when unknown.
        simulated: whether the runs were simulated.
        kind: kind of the model, "latency" or "score".
        digest: hash of the model's JSON.
        run_id: run that made the model.
        cold_trials: trials of that run, if it started without other models; else None.
    """

    job: str
    rate: float
    topology: str
    operators: tuple[str, ...]
    latency_target: float
    statistic: str
    execution: str | None
    simulated: bool
    kind: str
    digest: str
    run_id: str = ""
    cold_trials: int | None = None

    def __post_init__(self) -> None:
        if not self.job:
            raise InputError("job", "is empty", remedy="name the job")
        if self.cold_trials is not None:
            checks.count("cold_trials", self.cold_trials)
        checks.positive_in_range("rate", self.rate)
        checks.positive_in_range("latency_target", self.latency_target)
        if self.statistic not in get_args(Statistic):
            remedy = f"use one of {', '.join(get_args(Statistic))}"
            raise InputError("statistic", "is not a latency statistic", seen=self.statistic, remedy=remedy)
        if self.execution is not None and self.execution not in get_args(Execution):
            remedy = f"use one of {', '.join(get_args(Execution))}"
            raise InputError("execution", "is not an execution model", seen=self.execution, remedy=remedy)

    @classmethod
    def for_model(
        cls, model: BenefitModel, job: Job, *, simulated: bool, run_id: str = "", cold_trials: int | None = None
    ) -> ModelCard:
        return cls(
            job=job.name,
            rate=model.rate,
            topology=job.topology.fingerprint,
            operators=tuple(job.topology),
            latency_target=model.latency_target,
            statistic=job.target.statistic,
            execution=model.execution,
            simulated=simulated,
            kind=model.kind,
            digest=digest_model(model),
            run_id=run_id,
            cold_trials=cold_trials,
        )

    def check_matches(self, model: BenefitModel) -> None:
        """Raise `InputError` if the card describes another model than `model`."""
        for name, stated, actual in (
            ("rate", self.rate, model.rate),
            ("latency_target", self.latency_target, model.latency_target),
            ("execution", self.execution, model.execution),
            ("kind", self.kind, model.kind),
            ("operators", len(self.operators), len(model.floor)),
            ("digest", self.digest, digest_model(model)),
        ):
            if stated != actual:
                problem = f"does not match the model, which has {actual!r}"
                raise InputError(f"tags.{name}", problem, seen=stated, remedy="export the model again")

    @property
    def alias(self) -> str:
        return rate_alias(self.rate)

    def as_tags(self) -> dict[str, str]:
        cold_trials = {} if self.cold_trials is None else {"cold_trials": str(self.cold_trials)}
        return {
            "job": self.job,
            "rate": repr(self.rate),
            "topology": self.topology,
            "operators": json.dumps(self.operators, ensure_ascii=False),
            "latency_target": repr(self.latency_target),
            "statistic": self.statistic,
            "execution": self.execution or "unknown",
            "simulated": str(self.simulated).lower(),
            "kind": self.kind,
            "digest": self.digest,
            "run_id": self.run_id,
            **cold_trials,
        }

    @classmethod
    def from_tags(cls, tags: Mapping[str, str]) -> ModelCard:
        """Return the card that `as_tags` wrote. Raise `InputError` naming the tag that is missing or wrong."""
        try:
            return cls(
                job=tags["job"],
                rate=float(tags["rate"]),
                topology=tags["topology"],
                operators=tuple(str(name) for name in json.loads(tags["operators"])),
                latency_target=float(tags["latency_target"]),
                statistic=tags["statistic"],
                execution=None if tags["execution"] == "unknown" else tags["execution"],
                simulated={"true": True, "false": False}[tags["simulated"]],
                kind=tags["kind"],
                digest=tags["digest"],
                run_id=tags.get("run_id", ""),
                cold_trials=int(tags["cold_trials"]) if "cold_trials" in tags else None,
            )
        except KeyError as error:
            problem = "is missing or has an unknown value"
            raise InputError(f"tags.{error.args[0]}", problem, remedy="register the model again") from None
        except InputError as error:
            raise error.with_prefix("tags.") from None
        except (ValueError, TypeError) as error:
            raise InputError("tags", f"cannot be read: {error}", remedy="register the model again") from None


@dataclass(frozen=True)
class StoredModel:
    """A version of a registered model.

    Args:
        name: name of the registered model.
        version: its version, from 1.
        card: the card in its tags, or the error in them.
        aliases: MLflow aliases of the version.
        deprecated: why no run starts from it; None when runs may.
    """

    name: str
    version: int
    card: ModelCard | InputError
    aliases: tuple[str, ...] = ()
    deprecated: str | None = None

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.version}"


@dataclass(frozen=True)
class ModelRequest:
    """The properties that a model needs for a run to start from it: the same graph, measured the same way."""

    rate: float
    topology: str
    operators: tuple[str, ...]
    statistic: str
    execution: str | None
    simulated: bool
    faithful: bool = False

    @classmethod
    def for_job(cls, job: Job, *, execution: str | None, simulated: bool, faithful: bool = False) -> ModelRequest:
        operators, statistic = tuple(job.topology), job.target.statistic
        return cls(job.rate, job.topology.fingerprint, operators, statistic, execution, simulated, faithful)

    def find_mismatch(self, card: ModelCard) -> str | None:
        """Return the first reason why the model is useless for the run, or None."""
        if card.topology != self.topology:
            return f"it is of another topology ({', '.join(card.operators)})"
        if card.operators != self.operators:
            return f"its operators come in another order ({', '.join(card.operators)})"
        if card.statistic != self.statistic:
            return f"its target is on the {card.statistic} latency, not the {self.statistic}"
        if None not in (card.execution, self.execution) and card.execution != self.execution:
            return f"it was measured under {card.execution} execution, not {self.execution}"
        if card.simulated != self.simulated:
            return "it was made on the simulator" if card.simulated else "it was made on a real engine"
        if card.kind != "latency" and not self.faithful:
            return "it predicts scores only, and the default search needs latencies"
        return None


@dataclass(frozen=True)
class ModelChoice:
    """The stored models of a job, sorted by their use for a run.

    Args:
        chosen: models to start from, the nearest first.
        spare: further models that fit, the nearest first. They replace chosen models that cannot be read.
        unfit: one line for each model that does not fit.
    """

    chosen: tuple[StoredModel, ...]
    spare: tuple[StoredModel, ...]
    unfit: tuple[str, ...]

    @property
    def skipped_models(self) -> tuple[str, ...]:
        return *self.unfit, *(describe_too_far(stored, len(self.chosen)) for stored in self.spare)


def describe_too_far(stored: StoredModel, count: int) -> str:
    rate = f"{stored.card.rate:g}/s" if isinstance(stored.card, ModelCard) else "?"
    return f"{stored.uri}: {count} models are nearer than its rate of {rate}"


def choose_models(models: Sequence[StoredModel], wanted: ModelRequest, count: int = ANCESTORS) -> ModelChoice:
    """Choose at most `count` models for a run: the newest of each rate, the nearest rates first."""
    fitting: list[tuple[float, StoredModel]] = []
    unfit: list[str] = []
    newest_of_rate: dict[float, StoredModel] = {}
    for stored in sorted(models, key=lambda each: (each.version, each.name), reverse=True):
        card = stored.card
        reason = str(card) if isinstance(card, InputError) else wanted.find_mismatch(card)
        if stored.deprecated is not None:
            reason = f"it is deprecated: {stored.deprecated}"
        if isinstance(card, InputError) or reason is not None:
            unfit.append(f"{stored.uri}: {reason}")
        elif card.rate in newest_of_rate:
            unfit.append(f"{stored.uri}: version {newest_of_rate[card.rate].version} of the same rate is newer")
        else:
            newest_of_rate[card.rate] = stored
            fitting.append((abs(math.log(card.rate) - math.log(wanted.rate)), stored))
    fitting.sort(key=lambda each: (each[0], -each[1].version))
    ranked = tuple(stored for _, stored in fitting)
    return ModelChoice(ranked[:count], ranked[count:], tuple(unfit))


def rate_alias(rate: float) -> str:
    """Return the MLflow alias of a rate, such as `rate-350000`. A dot is not allowed, so 0.5 is `rate-0_5`."""
    text = f"{rate:.6f}".rstrip("0").rstrip(".")
    return f"rate-{text.replace('.', '_')}"


def digest_model(model: BenefitModel) -> str:
    return digest_json(json.loads(model.to_json()))
