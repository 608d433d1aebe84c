"""Does the backlog follow a service that the job calls: the correlation at each lag, for each service."""

from __future__ import annotations

from autotrascale.plan.control.observations.lagged_correlation import MIN_PAIRS, correlate_at_lags
from autotrascale.plan.control.observations.slow_services import MIN_CORRELATION, ServiceLatencyHistory
from autotrascale.plan.formatting import format_percent
from autotrascale.views.plots.plot import Axis, Level, Plot, Role, Series

NAME, TITLE = "services", "Backlog after the latency of services"
_ROLES: tuple[Role, ...] = ("main", "second", "third", "quiet")


def plot_service_lag(services: ServiceLatencyHistory) -> Plot:
    if not services.latency:
        return Plot.unavailable(NAME, TITLE, "No service is named, or nobody knows its latency.")
    found = {name: correlate_at_lags(services.backlog, latency) for name, latency in services.latency.items()}
    if not any(found.values()):
        why = f"Too few windows are known with a backlog that moves: {MIN_PAIRS} at least."
        return Plot.unavailable(NAME, TITLE, why)
    series = tuple(
        Series(
            name,
            tuple(float(each.lag) for each in lags),
            tuple(each.correlation for each in lags),
            "points",
            _ROLES[min(number, len(_ROLES) - 1)],
        )
        for number, (name, lags) in enumerate(found.items())
        if lags
    )
    best, name = max((each.correlation, name) for name, lags in found.items() for each in lags)
    lag = next(each.lag for each in found[name] if each.correlation == best)
    verb = "follows" if services.slow() is not None else "does not follow a service: most like it is"
    says = f"The backlog {verb} {name}, {format_percent(max(0.0, best))} at a lag of {lag} windows."
    return Plot(
        NAME,
        TITLE,
        says,
        Axis("lag, windows", whole=True),
        Axis("correlation"),
        series,
        (Level(MIN_CORRELATION, "follows"),),
    )
