"""Generated requests and the server's answers agree with the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from autotrascale.app import tuning_run
from autotrascale.app.job_file import read_job_file
from autotrascale.app.stores import open_decisions
from autotrascale.knowledge.decision_journal.journal import FINISHED
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.web.api.job_catalog import JobCatalog
from autotrascale.web.api.server_state import ServerState
from autotrascale.web.app import create_app
from benchmarks.workloads import seeded_sizes
from tests.web.api.clients import serving

Opened = tuple[str, dict[str, Any], str]  # where the server is, its document, a run that it knows
EXAMPLES = 15  # of each mode, for each operation
CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
OPERATIONS = [
    ("POST", "/v1/decide"),
    ("POST", "/v1/runs"),
    ("GET", "/v1/runs"),
    ("GET", "/v1/runs/{run_id}"),
    ("GET", "/v1/runs/{run_id}/evaluations"),
    ("GET", "/v1/runs/{run_id}/explanation"),
    ("GET", "/v1/runs/{run_id}/events"),
    ("POST", "/v1/runs/{run_id}/cancel"),
    ("POST", "/v1/runs/{run_id}/resume"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{job}/{version}"),
    ("POST", "/v1/models/{job}/{version}/predict"),
    ("POST", "/v1/models/{job}/{version}/deprecate"),
    ("DELETE", "/v1/models/{job}/{version}"),
    ("GET", "/v1/loops"),
    ("GET", "/v1/loops/{job}"),
    ("POST", "/v1/loops/{job}/pause"),
    ("POST", "/v1/loops/{job}/resume"),
    ("POST", "/v1/loops/{job}/pin"),
    ("POST", "/v1/loops/{job}/apply"),
    ("GET", "/v1/sizes"),
    ("GET", "/v1/sizes/{application}"),
    ("GET", "/healthz"),
    ("GET", "/metrics"),
]


@pytest.fixture(scope="module")
def opened(store: MlflowStore, configs: Path) -> Iterator[Opened]:
    """Yield address, document and the id of a run. The store also has a loop and size changes of an application."""
    path = configs / "other.yaml"
    file = read_job_file(path)
    silent = tuning_run.RunListener(lambda *_: None, lambda _: None, lambda _: None)
    run_id = tuning_run.start(tuning_run.TuningRequest(file, path, "simulator", file.tuning), store, silent).run_id
    decisions = open_decisions(store)
    assert decisions is not None
    seeded_sizes.write_size_actions(decisions, "sized")
    session = decisions.open_session(SessionHeader("other", "simulator", True, file.job, 0.5, "mean"))
    state = ServerState.of(store, JobCatalog(configs), "openapi", parallel_runs=0, limit=10_000)
    app = create_app(state)
    with serving(app) as base:
        yield base, app.openapi(), str(run_id)
    session.end(FINISHED)
    decisions.close()


def test_every_operation_is_tried(opened: Opened) -> None:
    there = [(method.upper(), path) for path, item in opened[1]["paths"].items() for method in item]
    assert sorted(there) == sorted(OPERATIONS)


@pytest.mark.parametrize(
    ("method", "path", "known"),
    [(*each, False) for each in OPERATIONS] + [(*each, True) for each in OPERATIONS if "{" in each[1]],
)
def test_no_generated_request_causes_a_server_error(opened: Opened, method: str, path: str, known: bool) -> None:
    base, document, run_id = opened
    operation = schemathesis.openapi.from_dict(document)[path][method]
    cases = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    cases |= operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @given(cases)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def tried(case: Any) -> None:
        if known:
            real = {"run_id": run_id, "job": "other", "version": 1, "application": "sized"}
            case.path_parameters = {name: real[name] for name in case.path_parameters}
        case.call_and_validate(base_url=base, session=session, checks=CHECKS)

    with requests.Session() as session:
        tried()
