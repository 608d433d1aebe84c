"""GET /v1/jobs: the job files that can be tuned."""

from __future__ import annotations

from fastapi import APIRouter

from autotrascale.web.api import schemas
from autotrascale.web.api.job_catalog import CatalogEntry
from autotrascale.web.api.paging import CursorQuery, LimitQuery, take_page
from autotrascale.web.api.problem_details import error_responses
from autotrascale.web.api.schemas import JobPage, JobView
from autotrascale.web.api.server_state import ServerStateDep
from autotrascale.web.api.strict_bodies import StrictRoute

router = APIRouter(prefix="/v1", route_class=StrictRoute)


@router.get("/jobs", tags=["jobs"], summary="List the jobs that can be tuned", responses=error_responses())
def list_jobs(state: ServerStateDep, limit: LimitQuery = schemas.MAX_LISTED, cursor: CursorQuery = None) -> JobPage:
    entries = state.catalog.all()
    page, more = take_page(entries, [each.name for each in entries], limit, cursor)
    return JobPage(jobs=[_view(each) for each in page], next_cursor=more)


def _view(entry: CatalogEntry) -> JobView:
    file = entry.file
    if file is None:
        return JobView(name=entry.name, problem=entry.problem)
    return JobView(
        name=entry.name,
        job=file.job,
        engines=[name for name in ("spark", "simulator") if getattr(file, name)],
        rate=sum(file.source_rates.values()),
        latency_target=file.target.latency_seconds,
        statistic=file.target.statistic,
        p_max=file.p_max,
        total_trials=file.tuning.total_trials,
    )
