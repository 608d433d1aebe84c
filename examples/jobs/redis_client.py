"""A Redis connection for each Python process, with failures reported in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from autotrascale.domain import checks
from autotrascale.domain.errors import EngineError, InputError

if TYPE_CHECKING:
    import redis

CLIENT_NAME = "autotrascale"
_LIKE = "write it like redis://127.0.0.1:6379/0"


@dataclass(frozen=True)
class Redis:
    """The address of a Redis server, and the seconds to wait for an answer.

    Workers get this object; it holds no connection.
    """

    url: str
    timeout: float = 2.0

    def __post_init__(self) -> None:
        checks.positive("redis_timeout", self.timeout)
        if self._parts().scheme not in ("redis", "rediss") or not self._parts().hostname:
            raise InputError("redis", "is not the address of a Redis server", seen=self.where, remedy=_LIKE)

    @property
    def where(self) -> str:
        """Return the address without user and password."""
        return str(self._parts()._replace(netloc=self._parts().netloc.rpartition("@")[2]).geturl())

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """Yield the client of this process. Raise `EngineError` for a Redis failure inside the block."""
        library = _import_redis()
        try:
            yield _connection(self.url, self.timeout)
        except library.TimeoutError:
            problem = f"did not answer within {self.timeout:g} s: reduce its load, or raise redis_timeout"
        except library.ConnectionError as error:
            problem = f"cannot be reached ({error}): start it, or correct the option redis"
        except library.RedisError as error:
            problem = f"refused the request ({error})"
        else:
            return
        raise EngineError(f"Redis at {self.where} {problem}")

    def _parts(self) -> Any:
        try:
            parts = urlsplit(self.url)
            parts.port  # noqa: B018 - raises for a port that is not a number
        except ValueError:
            raise InputError("redis", "is not the address of a Redis server", remedy=_LIKE) from None
        return parts


@cache
def _connection(url: str, timeout: float) -> redis.Redis:
    library = _import_redis()
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    # One retry at once, for a connection that broke between two trials; no second wait.
    retry = Retry(NoBackoff(), 1, supported_errors=(library.ConnectionError,))
    client: redis.Redis = library.Redis.from_url(
        url,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=retry,
        max_connections=1,
        client_name=CLIENT_NAME,
        decode_responses=True,
    )
    return client


def _import_redis() -> Any:
    try:
        import redis
    except ImportError:
        raise EngineError("the option `redis` needs the Python package redis: install autotrascale[redis]") from None
    return redis
