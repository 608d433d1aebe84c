"""The correlation of the backlog with the latency of each service that the job calls, at each lag."""

from __future__ import annotations

from autotrascale.plan.control.observations.lagged_correlation import MIN_PAIRS, correlate_at_lags
from autotrascale.plan.control.observations.slow_services import MIN_CORRELATION, ServiceLatencyHistory
from autotrascale.plan.formatting import format_percent
from autotrascale.views.plots.plot import Axis, Level, Plot, Role, Series

SERVICE_LAG = ("services", "Backlog and the latency of services")
_ROLES: tuple[Role, ...] = ("main", "second", "third", "quiet")


def plot_service_lag(services: ServiceLatencyHistory) -> Plot:
    if not services.latency:
        return Plot.unavailable(*SERVICE_LAG, "No service is configured, or no latency of a service is known.")
    by_service = {name: correlate_at_lags(services.backlog, latency) for name, latency in services.latency.items()}
    if not any(by_service.values()):
        return Plot.unavailable(*SERVICE_LAG, f"At least {MIN_PAIRS} windows with a changing backlog are needed.")
    series = tuple(
        Series(
            name,
            tuple(float(each.lag) for each in lags),
            tuple(each.correlation for each in lags),
            "points",
            _ROLES[min(number, len(_ROLES) - 1)],
        )
        for number, (name, lags) in enumerate(by_service.items())
        if lags
    )
    best, name = max((each.correlation, name) for name, lags in by_service.items() for each in lags)
    lag = next(each.lag for each in by_service[name] if each.correlation == best)
    verb = "follows" if services.find_slow_service() is not None else "follows no service. Closest is"
    caption = (
        f"The backlog {verb} {name}, with a correlation of {format_percent(max(0.0, best))} at a lag of {lag} windows."
    )
    x, y = Axis("lag, windows", whole=True), Axis("correlation")
    return Plot(*SERVICE_LAG, caption, x, y, series, (Level(MIN_CORRELATION, "threshold"),))
