"""The journal's texts: states, events and rules of a control loop as JSON, and back.

Fields of an event or a rule that have their default value are left out, so that the text is short. Numbers come back to
the last bit: a step that is replayed from the journal makes the same decision.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, cast

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Topology
from autotrascale.plan.control.autoscaling.autoscaling_plan import PlanningSettings
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.events import Event, ObservationTaken, RescaleEnded
from autotrascale.plan.control.loop_state import Rules, State
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.policies.registry import create
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.validation import validate

STATE_VERSION = 2


def state_to_json(state: State) -> str:
    # Written after every step: leaving out default values would cost more time than the bytes are worth.
    return json.dumps({"version": STATE_VERSION, **_fields(state)}, default=_fields, allow_nan=False)


def state_from_json(text: str) -> State:
    """Return the state that `state_to_json` was given.

    Raises `InputError` or `ValueError` for a text of another version and for a damaged one.
    """
    data: dict[str, Any] = json.loads(text)
    version = data.pop("version", None)
    if version != STATE_VERSION:
        raise InputError("state", f"has format {version}, expected {STATE_VERSION}", remedy="a new session begins")
    return validate(data, State, place="state")


def event_to_json(event: Event) -> str:
    return _compact(
        {"observation_taken" if isinstance(event, ObservationTaken) else "rescale_ended": _without_defaults(event)}
    )


def event_from_json(text: str) -> Event:
    """Return the event that `event_to_json` was given. Raises `InputError` for an event of another version."""
    recorded = validate(json.loads(text), _RecordedEvent, place="event")
    event = recorded.observation_taken or recorded.rescale_ended
    if event is None:
        remedy = "replay it with the version of AuTraScale that wrote it"
        raise InputError("event", "has an unknown kind", remedy=remedy)
    return event


def rules_to_json(rules: Rules) -> str:
    policy = None if rules.policy is None else rules.policy.name
    return _compact(
        {
            **_without_defaults(replace(rules, models=(), policy=None)),
            "models": [model.to_json() for model in rules.models],
            "policy": policy,
        }
    )


def rules_from_json(text: str) -> Rules:
    """Return the rules that `rules_to_json` was given. A comparison policy is created anew by its name; its memory is
    part of the state."""
    recorded = validate(json.loads(text), _RecordedRules, place="rules")
    models = tuple(BenefitModel.from_json(model) for model in recorded.models)
    options = recorded.policy_options
    policy = None if recorded.policy is None else create(recorded.policy, recorded.settings.target, options)
    given = {each.name: getattr(recorded, each.name) for each in fields(recorded)}
    return Rules(**{**given, "models": models, "policy": policy})


@dataclass(frozen=True)
class _RecordedEvent:
    observation_taken: ObservationTaken | None = None
    rescale_ended: RescaleEnded | None = None


@dataclass(frozen=True)
class _RecordedRules:
    settings: AutoscalingSettings
    knobs: Knobs
    planning: PlanningSettings = field(default_factory=PlanningSettings)
    rescales_per_day: int | None = 10
    stale_seconds: float = 0.0
    advise: bool = False
    models: tuple[str, ...] = ()
    policy: str | None = None
    policy_options: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    topology: Topology | None = None
    p_max: int | None = None


def _compact(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in _field_names(cast(Hashable, type(value)))}


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.init)


def _without_defaults(value: Any) -> Any:
    """Return `value` as plain data, without the fields of dataclasses that have their default value."""
    if is_dataclass(value):
        return {
            each.name: _without_defaults(own)
            for each in fields(value)
            if each.init and not _is_default(own := getattr(value, each.name), each.default, each.default_factory)
        }
    if isinstance(value, Mapping):
        return {name: _without_defaults(each) for name, each in value.items()}
    return [_without_defaults(each) for each in value] if isinstance(value, tuple | list) else value


def _is_default(value: object, default: object, factory: Any) -> bool:
    if value is default:
        return True
    if value is None or isinstance(value, bool):
        return False
    usual = default if factory is MISSING else factory()
    return type(value) is type(usual) and bool(value == usual)
