"""Request bodies, as strict as files: no key twice, no number outside the measurable range, bounded size and depth."""

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
LARGE_BODY_BYTES = 16_384  # larger bodies are parsed in a thread
MAX_KEYS = 50  # at the top level; each unknown key would become an error of its own


class _StrictRequest(Request):
    async def json(self) -> Any:
        """Return the parsed body. Raises `HTTPException` 422; FastAPI answers any other error with a bare 400."""
        try:
            body = await self.body()
            if len(body) < LARGE_BODY_BYTES:
                data = _parse(body)
            else:
                state: ServerState = self.app.state.service
                data = await state.compute(lambda: _parse(body))
        except InputError as error:
            raise HTTPException(422, str(error)) from None
        if isinstance(data, dict) and len(data) > MAX_KEYS:
            raise HTTPException(422, f"body: has {len(data)} keys, at most {MAX_KEYS} are allowed")
        return data


def _parse(body: bytes) -> object:
    return parse_json(body, "body", MAX_VALUES)


class StrictRoute(APIRoute):
    """A route whose body is parsed strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return handle
