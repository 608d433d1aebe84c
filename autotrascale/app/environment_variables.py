"""The variables of the environment that this program reads, all of them: a name that is none of these, and begins as
they do, is misspelt. docs/monitoring.md says what each sets."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

PREFIX = "AUTOTRASCALE_"
STORE = f"{PREFIX}STORE"
METRICS = f"{PREFIX}METRICS"
NOTIFY = f"{PREFIX}NOTIFY"
TOKEN = f"{PREFIX}TOKEN"
JOB = f"{PREFIX}JOB__"  # followed by a key of the job file
SERVE = f"{PREFIX}SERVE_"  # followed by the name of an option
SERVE_VARIABLES = tuple(
    f"{SERVE}{option}"
    for option in ("CONFIGS", "HOST", "PORT", "TOKEN_FILE", "PARALLEL_RUNS", "QUEUE_LIMIT", "NAME", "NOTIFY")
)
USER_VARIABLES = (STORE, METRICS, NOTIFY, TOKEN, *SERVE_VARIABLES)
# What processes of ours tell those that they start.
INTERNAL_VARIABLES = tuple(f"{PREFIX}{name}" for name in ("PROGRAM", "EXECUTORS", "APPLY", "HOST_OF"))


def find_misspelled(environment: Mapping[str, str] = os.environ) -> list[str]:
    """A line on each that is set and that nothing reads."""
    found = []
    for name in sorted(environment):
        if name.startswith(PREFIX) and not name.startswith(JOB) and name not in (*USER_VARIABLES, *INTERNAL_VARIABLES):
            near = difflib.get_close_matches(name, (*USER_VARIABLES, JOB), n=1)
            meant = f"did you mean {near[0]}?" if near else "see docs/monitoring.md"
            found.append(f"{name}: is set, and nothing reads it; {meant}")
    return found
