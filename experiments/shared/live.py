"""`autotrascale autoscale` on a job file, as a user would run it: one entry a line on stdout, a sentence at the end of
stderr."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from autotrascale.domain.errors import EngineError

TARGET_MISSED = 3  # an exit code, and no failure


def autoscaled(
    content: Mapping[str, Any], seconds: float, folder: Path, *options: str
) -> tuple[list[dict[str, Any]], str]:
    """The loop's entries, and its sentence. The job file and the store are in `folder`."""
    job_file = folder / "job.yaml"
    job_file.write_text(yaml.safe_dump(dict(content)), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "autotrascale.cli.main",
        "autoscale",
        str(job_file),
        "--for",
        str(seconds),
        "--store",
        f"sqlite:///{folder}/mlflow.db",
        "--format",
        "json",
        *options,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, said = process.communicate()
    if process.returncode not in (0, TARGET_MISSED):
        raise EngineError(f"autotrascale autoscale ended with {process.returncode}: {said.strip()}")
    return [json.loads(line) for line in out.splitlines()], said.strip().splitlines()[-1]
