"""What is written on a stored benefit model, and which of the stored ones a run should start from.

Nearest means nearest in the logarithm of the rate: from 100/s, both 50/s and 200/s are one doubling away. Rates are
compared here as numbers, because a store compares its tags as text.
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
    """The tags of a model version. `operators` are in the order of the model's vectors.

    `cold_trials` is what its run took from nothing; None where it started from other models, or nobody counted.
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
            raise InputError(
                "statistic",
                "is not a latency statistic",
                seen=self.statistic,
                remedy=f"use one of {', '.join(get_args(Statistic))}",
            )
        if self.execution is not None and self.execution not in get_args(Execution):
            raise InputError(
                "execution",
                "is not an execution model",
                seen=self.execution,
                remedy=f"use one of {', '.join(get_args(Execution))}",
            )

    @classmethod
    def of(
        cls, model: BenefitModel, job: Job, *, simulated: bool, run_id: str = "", cold_trials: int | None = None
    ) -> ModelCard:
        return cls(
            job.name,
            model.rate,
            job.topology.fingerprint,
            tuple(job.topology),
            model.latency_target,
            job.target.statistic,
            model.execution,
            simulated,
            model.kind,
            digest_model(model),
            run_id,
            cold_trials,
        )

    def check_matches(self, model: BenefitModel) -> None:
        """A card that says something else than its model is a mistake, or a forgery."""
        for name, said, is_ in (
            ("rate", self.rate, model.rate),
            ("latency_target", self.latency_target, model.latency_target),
            ("execution", self.execution, model.execution),
            ("kind", self.kind, model.kind),
            ("operators", len(self.operators), len(model.floor)),
            ("digest", self.digest, digest_model(model)),
        ):
            if said != is_:
                raise InputError(
                    f"tags.{name}", f"does not fit the model, which says {is_!r}", seen=said, remedy="export it again"
                )

    @property
    def alias(self) -> str:
        return rate_alias(self.rate)

    def as_tags(self) -> dict[str, str]:
        counted = {} if self.cold_trials is None else {"cold_trials": str(self.cold_trials)}
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
            **counted,
        }

    @classmethod
    def from_tags(cls, tags: Mapping[str, str]) -> ModelCard:
        try:
            operators = json.loads(tags["operators"])
            return cls(
                job=tags["job"],
                rate=float(tags["rate"]),
                topology=tags["topology"],
                operators=tuple(str(name) for name in operators),
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
            raise InputError(
                f"tags.{error.args[0]}", "is missing, or is none of its values", remedy="register the model again"
            ) from None
        except (ValueError, TypeError) as error:
            if isinstance(error, InputError):
                raise error.under("tags.") from None
            raise InputError("tags", f"cannot be read: {error}", remedy="register the model again") from None


@dataclass(frozen=True)
class StoredModel:
    """One version of a registered model, and what its tags say: a card, or why they say nothing."""

    name: str
    version: int
    card: ModelCard | InputError
    aliases: tuple[str, ...] = ()
    deprecated: str | None = None  # why no run starts from it

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.version}"


@dataclass(frozen=True)
class ModelRequest:
    """What a run could start from: anything learned of the same graph, measured the same way."""

    rate: float
    topology: str
    operators: tuple[str, ...]
    statistic: str
    execution: str | None
    simulated: bool
    faithful: bool = False

    @classmethod
    def by(cls, job: Job, *, execution: str | None, simulated: bool, faithful: bool = False) -> ModelRequest:
        return cls(
            job.rate,
            job.topology.fingerprint,
            tuple(job.topology),
            job.target.statistic,
            execution,
            simulated,
            faithful,
        )

    def why_not(self, card: ModelCard) -> str | None:
        """The first thing that makes the model useless here; None when nothing does."""
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
            return "it predicts scores only, which the default search cannot use"
        return None


@dataclass(frozen=True)
class ModelChoice:
    """The models to start from, the nearest first, what may stand in for one of them that cannot be read, and a line on
    each of those that do not fit."""

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
    fitting: list[tuple[float, StoredModel]] = []
    passed: list[str] = []
    newest: dict[float, StoredModel] = {}
    for stored in sorted(models, key=lambda each: (each.version, each.name), reverse=True):
        card = stored.card
        reason = str(card) if isinstance(card, InputError) else wanted.why_not(card)
        if stored.deprecated is not None:
            reason = f"it is deprecated: {stored.deprecated}"
        if isinstance(card, InputError) or reason is not None:
            passed.append(f"{stored.uri}: {reason}")
        elif card.rate in newest:
            passed.append(f"{stored.uri}: version {newest[card.rate].version} of the same rate is newer")
        else:
            newest[card.rate] = stored
            fitting.append((abs(math.log(card.rate) - math.log(wanted.rate)), stored))
    fitting.sort(key=lambda each: (each[0], -each[1].version))
    ranked = tuple(stored for _, stored in fitting)
    return ModelChoice(ranked[:count], ranked[count:], tuple(passed))


def rate_alias(rate: float) -> str:
    """`rate-350000`; MLflow allows no dot in an alias, so 0.5 is `rate-0_5`."""
    text = f"{rate:.6f}".rstrip("0").rstrip(".")
    return f"rate-{text.replace('.', '_')}"


def digest_model(model: BenefitModel) -> str:
    """Return the digest of the model's JSON form."""
    return digest_json(json.loads(model.to_json()))
