"""POST /v1/decide: the decision of a policy on a snapshot."""

from __future__ import annotations

from fastapi import APIRouter

from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.policies.registry import create
from autotrascale.validation import validate
from autotrascale.web.api import schemas
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.schemas import DecideRequest, DecisionView
from autotrascale.web.api.server_state import ServerStateDep
from autotrascale.web.api.strict_bodies import StrictRoute

router = APIRouter(prefix="/v1", route_class=StrictRoute)


@router.post("/decide", tags=["decide"], summary="Decide on a snapshot", responses=error_responses())
async def decide(body: DecideRequest, state: ServerStateDep) -> DecisionView:
    """Return the parallelism that a policy wants. Nothing is changed."""
    return await state.compute(lambda: _decide(body))


def _decide(body: DecideRequest) -> DecisionView:
    target = None if body.latency_target is None else Target(body.latency_target, body.statistic)
    policy = create(body.policy, target)
    snapshot = validate(body.snapshot, Snapshot, place="body.snapshot")
    _check_size(snapshot)
    return DecisionView(**policy.decide(snapshot).as_dict())


def _check_size(snapshot: Snapshot) -> None:
    # Some policies try every parallelism of every operator, so that large snapshots would block other clients.
    for place, size, most in (
        ("p_max", snapshot.p_max, schemas.MAX_P_MAX),
        ("operators", len(snapshot.operators), schemas.MAX_OPERATORS),
    ):
        if size > most:
            raise InputError(
                f"body.snapshot.{place}",
                f"is above the limit of the HTTP API, {most}",
                seen=size,
                remedy="use: autotrascale decide",
            )
