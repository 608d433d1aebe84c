"""What a request brings with it, as strict as a file: no key twice, no number that nothing is measured in, and bounded
in values and depth before anything is made of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from autotrascale.domain.errors import InputError
from autotrascale.validation import parse_json
from autotrascale.web.api.server_state import ServerState

MAX_VALUES = 50_000
LARGE_BODY_BYTES = 16_384  # bytes; what is read of more is read in a thread
MAX_KEYS = 50  # of a body itself: no request has as many, and each that is unknown becomes a complaint


class _Strict(Request):
    async def json(self) -> Any:
        """Whatever is raised here that is no answer already, FastAPI answers with nothing but 400."""
        try:
            body = await self.body()
            if len(body) < LARGE_BODY_BYTES:
                found = _parse(body)
            else:
                state: ServerState = self.app.state.service
                found = await state.compute(lambda: _parse(body))
        except InputError as error:
            raise HTTPException(422, str(error)) from None
        if isinstance(found, dict) and len(found) > MAX_KEYS:
            raise HTTPException(422, f"body: has {len(found)} keys, and no request has more than {MAX_KEYS}")
        return found


def _parse(body: bytes) -> object:
    return parse_json(body, "body", MAX_VALUES)


class StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(_Strict(request.scope, request.receive))

        return strict
