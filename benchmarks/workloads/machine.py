"""The machine that a benchmark runs on, for the record beside its results."""

from __future__ import annotations

import os
import platform
from typing import Any


def describe_machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": platform.platform(),
    }
