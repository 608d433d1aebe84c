"""Convert the critical paths of a window to metric points.

measurement                 tags                                  fields
autotrascale_critical       application, job                      window_seconds, waiting, uncovered, path_seconds
autotrascale_critical_part  application, job, summary, name;      participation, busy_seconds; of an operator how many
                            instance where there is one           instances it had
autotrascale_critical_case  application, job, change, of          at_best

`job` is the query. Their time is the end of the window.
"""

from __future__ import annotations

from autotrascale.domain.critical_path_report import SUMMARIES, CriticalPathReport, PathShare
from autotrascale.monitor.stores.points import SECOND, MetricPoint

WINDOW_MEASUREMENT = "autotrascale_critical"
PART_MEASUREMENT = "autotrascale_critical_part"
CASE_MEASUREMENT = "autotrascale_critical_case"
_EXCHANGES = "exchanges"  # one for each pair of timelines: too many series for a store


def participation_to_points(window: CriticalPathReport) -> list[MetricPoint]:
    time = window.started_ms * (SECOND // 1000) + round(window.seconds * SECOND)
    tags = {"application": window.application, "job": window.query}
    whole = {
        "window_seconds": window.seconds,
        "waiting": window.waiting,
        "uncovered": window.uncovered,
        "path_seconds": window.path_seconds,
    }
    points = [MetricPoint(WINDOW_MEASUREMENT, tags, whole, time)]
    for summary in SUMMARIES:
        if summary != _EXCHANGES:
            points += [_point({**tags, "summary": summary}, part, time) for part in getattr(window, summary)]
    for case in window.what_ifs:
        points.append(
            MetricPoint(
                CASE_MEASUREMENT, {**tags, "change": case.change, "of": case.of}, {"at_best": case.at_best}, time
            )
        )
    return points


def _point(tags: dict[str, str], part: PathShare, time: int) -> MetricPoint:
    own = {"name": part.name} | ({} if part.instance is None else {"instance": str(part.instance)})
    fields = {"participation": part.participation, "busy_seconds": part.busy_seconds}
    return MetricPoint(
        PART_MEASUREMENT, {**tags, **own}, fields | ({"instances": part.instances} if part.instances else {}), time
    )
