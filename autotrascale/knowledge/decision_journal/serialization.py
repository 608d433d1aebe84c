"""What the journal of decisions holds, as text and back: a loop's state, its rules, and what happened at each step.

Of a look, fields that have their usual value are left out, so that it is short. Numbers come back as they were, to the
last bit: a step that is made again from the journal decides the same.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, cast

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Topology
from autotrascale.plan.control.autoscaling.autoscaling_memory import AutoscalingMemory
from autotrascale.plan.control.autoscaling.autoscaling_plan import PlanningSettings
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.autoscaling.readings_by_rate import RateReadings, ReadingsByRate
from autotrascale.plan.control.loop_state import Rules, State
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.control.step import Event, ObservationTaken, RescaleEnded
from autotrascale.plan.policies import create
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.validation import validate

STATE_VERSION = 2


def state_to_json(state: State) -> str:
    """Written after every step, so whole and by the encoder: leaving out costs more than it saves."""
    return json.dumps({"version": STATE_VERSION, **_fields(state)}, default=_fields, allow_nan=False)


def state_from_json(text: str) -> tuple[State, str]:
    """The state, and what has to be said of it: one that another version wrote is begun anew from its readings."""
    data: dict[str, Any] = json.loads(text)
    version = data.pop("version", 1)
    if version == STATE_VERSION:
        return validate(data, State, place="state"), ""
    readings = _readings(data)
    running = data.get("good") or data.get("observed")
    state = State(
        memory=AutoscalingMemory(readings=readings),
        number=int(data.get("number", 0)),
        observed=running if isinstance(running, dict) else None,
    )
    known = f"from the readings of {len(readings.cells)} rates" if readings.cells else "with nothing known"
    return state, f"its state was written by another version of this program (format {version}): begun anew {known}"


def event_to_json(event: Event) -> str:
    return _text({"look" if isinstance(event, ObservationTaken) else "rescale_ended": _plain(event)})


def event_from_json(text: str) -> Event:
    recorded = validate(json.loads(text), _Recorded, place="look")
    event = recorded.look or recorded.rescale_ended
    if event is None:
        raise InputError("look", "is of another version", remedy="replay it with the program that wrote it")
    return event


def rules_to_json(rules: Rules) -> str:
    policy = None if rules.policy is None else rules.policy.name
    return _text(
        {
            **_plain(replace(rules, models=(), policy=None)),
            "models": [model.to_json() for model in rules.models],
            "policy": policy,
        }
    )


def rules_from_json(text: str) -> Rules:
    """A policy that is not ours is asked for by its name; what it remembers is in the state."""
    recorded = validate(json.loads(text), _RecordedRules, place="rules")
    models = tuple(BenefitModel.from_json(model) for model in recorded.models)
    options = recorded.policy_options
    policy = None if recorded.policy is None else create(recorded.policy, recorded.settings.target, options)
    return Rules(
        recorded.settings,
        recorded.knobs,
        recorded.planning,
        recorded.rescales_per_day,
        recorded.stale_seconds,
        recorded.advise,
        models,
        policy,
        options,
        recorded.topology,
        recorded.p_max,
    )


@dataclass(frozen=True)
class _Recorded:
    look: ObservationTaken | None = None
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


def _text(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in _names(cast(Hashable, type(value)))}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.init)


def _plain(value: Any) -> Any:
    """Dataclasses without the fields that have their usual value."""
    if is_dataclass(value):
        return {
            each.name: _plain(own)
            for each in fields(value)
            if each.init and not _is_usual(own := getattr(value, each.name), each.default, each.default_factory)
        }
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value


def _is_usual(value: object, default: object, factory: Any) -> bool:
    if value is default:
        return True
    if value is None or isinstance(value, bool):
        return False
    usual = default if factory is MISSING else factory()
    return type(value) is type(usual) and bool(value == usual)


def _readings(data: Mapping[str, Any]) -> ReadingsByRate:
    """Those of another version that this one understands."""
    cells = (data.get("memory") or {}).get("readings", {}).get("cells", [])
    found = []
    for cell in cells if isinstance(cells, list) else []:
        try:
            found.append(validate(cell, RateReadings, place="reading"))
        except InputError:
            continue
    return ReadingsByRate(tuple(found))
