"""One connection to Redis for each Python process, and its failures in one clear sentence."""

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
    """Where it is, and how many seconds it may take over one answer. This is what travels to workers."""

    url: str
    timeout: float = 2.0

    def __post_init__(self) -> None:
        checks.positive("redis_timeout", self.timeout)
        if self._parts().scheme not in ("redis", "rediss") or not self._parts().hostname:
            raise InputError("redis", "is no address of a Redis", seen=self.where, remedy=_LIKE)

    @property
    def where(self) -> str:
        """The address as it may be shown: without user and password."""
        return str(self._parts()._replace(netloc=self._parts().netloc.rpartition("@")[2]).geturl())

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """This process's own; what goes wrong inside is told as an `EngineError`."""
        library = _library()
        try:
            yield _connection(self.url, self.timeout)
        except library.TimeoutError:
            problem = f"gave no answer within {self.timeout:g} s: look what keeps it busy, or raise redis_timeout"
        except library.ConnectionError as error:
            problem = f"cannot be reached ({error}): start it, or correct the option redis"
        except library.RedisError as error:
            problem = f"refused ({error})"
        else:
            return
        raise EngineError(f"Redis at {self.where} {problem}")

    def _parts(self) -> Any:
        try:
            parts = urlsplit(self.url)
            parts.port  # noqa: B018 - a port that is no number is found out here
        except ValueError:
            raise InputError("redis", "is no address of a Redis", remedy=_LIKE) from None
        return parts


@cache
def _connection(url: str, timeout: float) -> redis.Redis:
    library = _library()
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    # A second try at once, for a connection that died unseen between two trials; never a second wait.
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


def _library() -> Any:
    try:
        import redis
    except ImportError:
        raise EngineError("Python lacks redis, which the option redis needs: install autotrascale[redis]") from None
    return redis
