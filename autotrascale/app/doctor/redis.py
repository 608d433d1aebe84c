"""The Redis that a job keeps results in, where one of its options is the address of one."""

from __future__ import annotations

from urllib.parse import urlsplit

from autotrascale.app.doctor.checks import CheckContext, Finding, ok, problem

PATIENCE = 2.0
_SCHEMES = ("redis://", "rediss://")


def address(case: CheckContext) -> str | None:
    options = case.job.spark.options.values() if case.job is not None and case.job.spark is not None else ()
    return next((value for value in options if isinstance(value, str) and value.startswith(_SCHEMES)), None)


def reachable(case: CheckContext) -> Finding | None:
    url = address(case)
    if url is None:
        return None
    where = f"Redis at {_without_secrets(url)}"
    try:
        import redis
    except ModuleNotFoundError:
        return problem(f"{where} is asked for, and Python lacks redis", "pip install 'autotrascale[redis]'")
    try:
        with redis.Redis.from_url(url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE) as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        said = " ".join(str(error).replace(url, where).split())
        return problem(f"{where} does not answer: {said}", "start it, or correct the job's option")
    return ok(f"{where} answers")


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
