"""docs/how-to/http-api.md has the options and limits of the program, and examples that the server accepts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.main import get_command

from autotrascale.app import environment_variables
from autotrascale.cli import main
from autotrascale.web.api import guard, schemas
from autotrascale.web.api.job_catalog import JobCatalog
from tests.web.api.clients import TestClient

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "how-to" / "http-api.md").read_text(encoding="utf-8")


def test_options_and_limits_are_those_of_the_program() -> None:
    options = {name for each in get_command(main.app).commands["serve"].params for name in each.opts}  # type: ignore[attr-defined]
    of_others = r"^curl.*$|`python -m benchmarks[^`]*`"  # the options of curl and of a bench are not the service's
    told = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", re.sub(of_others, "", DOC, flags=re.MULTILINE)))
    assert told <= options
    assert environment_variables.TOKEN in DOC
    assert f"{guard.MAX_BODY_BYTES:,} bytes" in DOC
    assert f"{schemas.MAX_LISTED} entries" in DOC


def test_the_documented_example_is_accepted(client: TestClient) -> None:
    (asked,) = re.findall(r"-d '(\{\"job\".*?\})'", DOC)
    schemas.RunRequest.model_validate(json.loads(asked))
    assert JobCatalog(ROOT / "configs").find(json.loads(asked)["job"]) is not None
    for example in client.get("/openapi.json").json()["components"]["schemas"]["DecideRequest"]["examples"]:
        assert client.post("/v1/decide", json=example).status_code == 200


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "configs").glob("*.yaml")))
def test_every_job_file_that_ships_can_be_used(name: str) -> None:
    listed = JobCatalog(ROOT / "configs").find(name)
    assert listed is not None
    assert listed.problem is None
