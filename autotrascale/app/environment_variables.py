"""Environment variables that AuTraScale reads. The command line warns about other names with the same prefix.

docs/how-to/monitor.md describes each variable.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

PREFIX = "AUTOTRASCALE_"
STORE = f"{PREFIX}STORE"
METRICS = f"{PREFIX}METRICS"
NOTIFY = f"{PREFIX}NOTIFY"
TOKEN = f"{PREFIX}TOKEN"
JOB = f"{PREFIX}JOB__"  # + a key of the job file
SERVE = f"{PREFIX}SERVE_"  # + the name of an option of `serve`
STORE_VARIABLES = (STORE, "MLFLOW_TRACKING_URI")  # the first that is set wins
SERVE_VARIABLES = tuple(
    f"{SERVE}{option}"
    for option in ("CONFIGS", "HOST", "PORT", "TOKEN_FILE", "PARALLEL_RUNS", "QUEUE_LIMIT", "NAME", "NOTIFY")
)
USER_VARIABLES = (STORE, METRICS, NOTIFY, TOKEN, *SERVE_VARIABLES)
# Set by AuTraScale for the processes that it starts.
INTERNAL_VARIABLES = tuple(
    f"{PREFIX}{name}" for name in ("PROGRAM", "EXECUTORS", "APPLY", "RESCALE", "MEASURED", "DRIVER_OF")
)


def find_misspelled(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return a warning for each variable with our prefix that has no meaning, with the nearest known name."""
    warnings = []
    for name in sorted(environment):
        if name.startswith(PREFIX) and not name.startswith(JOB) and name not in (*USER_VARIABLES, *INTERNAL_VARIABLES):
            near = difflib.get_close_matches(name, (*USER_VARIABLES, JOB), n=1)
            remedy = f"did you mean {near[0]}?" if near else "see docs/how-to/monitor.md"
            warnings.append(f"{name}: is not a variable of AuTraScale; {remedy}")
    return warnings
