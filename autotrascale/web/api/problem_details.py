"""Errors of the server as problem details (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from autotrascale.app.run_queue import server_log
from autotrascale.domain.errors import (
    AuTraScaleError,
    CommandRefusedError,
    DecisionJournalError,
    IdempotencyKeyReusedError,
    InputError,
    NoLoopError,
    QueueFullError,
    RunStoreError,
    StudyError,
)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
MAX_ERRORS = 20  # in one answer


class FieldError(BaseModel):
    """An error in one part of a request."""

    place: str = Field(description="Part of the request.", examples=["body.rate"])
    problem: str = Field(examples=["input should be greater than 0"])


class ProblemDetails(BaseModel):
    """RFC 9457. `type` is about:blank, because the status says what kind of problem it is."""

    type: str = "about:blank"
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["run 0123456789abcdef0123456789abcdef is not in the store"])
    errors: list[FieldError] | None = Field(default=None, description="All errors in the request.")


_ALWAYS = (400, 401, 403, 413, 421, 422, 500, 503)
_MEANINGS = {
    400: "The request cannot be read.",
    401: "The token is missing or wrong.",
    403: "The request comes from a page of another site.",
    404: "The named entry does not exist.",
    409: "The present state does not allow it.",
    413: "The body is too large.",
    421: "The Host header names another server.",
    422: "A value is wrong; `errors` names the places.",
    500: "The request failed in the server; its log has the details.",
    503: "The store is away or a limit is reached; `Retry-After` states the seconds to wait.",
}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the errors of a route for the OpenAPI document: `statuses`, and those that every route may return."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _MEANINGS[status], "content": content} for status in sorted({*_ALWAYS, *statuses})}


class ProblemResponse(Response):
    """A response with problem details, in ASCII: a request's own characters may come back in `detail`."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        status: int,
        detail: str,
        errors: list[dict[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
        content = json.dumps(problem if errors is None else {**problem, "errors": errors})
        super().__init__(content, status, dict(headers or {}))


def install(app: FastAPI) -> None:
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.add_exception_handler(AuTraScaleError, _answer_own_error)
    app.add_exception_handler(Exception, _answer_internal_error)


async def _answer_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return ProblemResponse(error.status_code, str(error.detail), headers=error.headers)


async def _answer_invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = [
        {"place": ".".join(str(part) for part in each["loc"])[:200], "problem": each["msg"][:500]}
        for each in error.errors()[:MAX_ERRORS]
    ]
    detail = "; ".join(f"{each['place']}: {each['problem']}" for each in wrong[:3])
    return ProblemResponse(422, detail, wrong)


async def _answer_own_error(_: Request, error: Exception) -> Response:
    if isinstance(error, NoLoopError | CommandRefusedError):
        return ProblemResponse(404 if isinstance(error, NoLoopError) else 409, str(error))
    if isinstance(error, InputError):
        return ProblemResponse(422, str(error), [{"place": error.place, "problem": error.problem}])
    if isinstance(error, RunStoreError | QueueFullError | DecisionJournalError):
        return ProblemResponse(503, str(error), headers={"Retry-After": str(RETRY_SECONDS)})
    if isinstance(error, StudyError | IdempotencyKeyReusedError):
        return ProblemResponse(409 if isinstance(error, StudyError) else 422, str(error))
    return await _answer_internal_error(_, error)


async def _answer_internal_error(request: Request, error: Exception) -> Response:
    server_log.warning("request failed", path=request.url.path, error=f"{type(error).__name__}: {error}")
    return ProblemResponse(500, "internal error: the server's log has the details")
