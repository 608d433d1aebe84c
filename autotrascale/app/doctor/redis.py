"""Redis, if an option of the job is the address of a Redis server."""

from __future__ import annotations

from urllib.parse import urlsplit

from autotrascale.app.doctor.checks import CheckContext, Finding, ok, problem

TIMEOUT_SECONDS = 2.0
_SCHEMES = ("redis://", "rediss://")


def find_address(context: CheckContext) -> str | None:
    """Return the first option of the job that is the address of a Redis server, or None."""
    spark = None if context.job is None else context.job.spark
    options = () if spark is None else spark.options.values()
    return next((value for value in options if isinstance(value, str) and value.startswith(_SCHEMES)), None)


def reachable(context: CheckContext) -> Finding | None:
    url = find_address(context)
    if url is None:
        return None
    parts = urlsplit(url)
    place = f"Redis at {parts._replace(netloc=parts.netloc.rpartition('@')[2]).geturl()}"  # without the password
    try:
        import redis
    except ModuleNotFoundError:
        return problem(
            f"{place} is an option of the job, but the package redis is missing", "pip install 'autotrascale[redis]'"
        )
    try:
        with redis.Redis.from_url(
            url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
        ) as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        message = " ".join(str(error).replace(url, place).split())
        return problem(f"{place} does not answer: {message}", "start it, or correct the job's option")
    return ok(f"{place} answers")
