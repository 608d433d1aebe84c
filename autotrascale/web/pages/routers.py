"""The routers of all pages."""

from __future__ import annotations

from autotrascale.web.pages import api_docs, assets, jobs, models, overview, sign_in, size_actions, tuning_runs

PAGE_ROUTERS = tuple(
    each.router for each in (overview, jobs, tuning_runs, models, size_actions, api_docs, sign_in, assets)
)
