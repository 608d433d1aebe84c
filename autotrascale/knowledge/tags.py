"""Names of the MLflow tags, files and parameters of a tuning run."""

from __future__ import annotations

from collections.abc import Sequence

PARENT_RUN = "mlflow.parentRunId"
RUN_NAME = "mlflow.runName"

KIND = "autotrascale.kind"
TUNING, EVALUATION, IMPORT, AUTOSCALING = "tuning", "evaluation", "import", "autoscaling"

JOB = "autotrascale.job"
SESSION = "autotrascale.session"  # session of a control loop, as in the decision journal
JOB_FILE = "autotrascale.job_file_sha256"
TOPOLOGY = "autotrascale.topology"
ENGINE = "autotrascale.engine"
SIMULATED = "autotrascale.simulated"
RATE = "autotrascale.rate"
LATENCY_TARGET = "autotrascale.latency_target"

OWNER = "autotrascale.owner"
HEARTBEAT = "autotrascale.heartbeat"
CANCEL = "autotrascale.cancel"
# A lease has OWNER and HEARTBEAT too, and these: what its holder does, on which object, and whether it let go.
DOING = "autotrascale.doing"
WHAT = "autotrascale.what"
RELEASED = "autotrascale.released"
# A run of the server's queue: its request, the server, its place, and the hash of the client's idempotency key.
REQUEST = "autotrascale.request"
SERVER = "autotrascale.server"
QUEUE = "autotrascale.queue"
KEY = "autotrascale.idempotency_key_sha256"

ASKED = "autotrascale.asked"  # users and their requests, see requested_by.py
ENDED = "autotrascale.ended"  # why an unfinished run ended

NUMBER = "autotrascale.number"
PHASE = "autotrascale.phase"
POLICY = "autotrascale.policy"
VERDICT = "autotrascale.verdict"
PARALLELISM = "autotrascale.parallelism"
MET_TARGET = "autotrascale.met_target"
STOP_REASON = "autotrascale.stop_reason"

OPENING_FILE, OUTCOME_FILE, TRIALS = "run.json", "outcome.json", "trials"

_MAX_TAG_LENGTH = 500  # characters


def format_vector(ks: Sequence[int]) -> str:
    """Return a parallelism as `(2,4,1)`, cut to the length of a tag."""
    text = "(" + ",".join(str(k) for k in ks) + ")"
    return text if len(text) <= _MAX_TAG_LENGTH else text[: _MAX_TAG_LENGTH - 3] + "..."


def trial_file_name(number: int, run_id: str) -> str:
    """Return the file name of a trial. `run_id` is the id of the nested run of its evaluation.

    All trials are artefacts of the tuning run, so one request reads them all.
    """
    return f"{number:04}-{run_id[:8]}.json"


def param_names(operators: Sequence[str]) -> list[str]:
    """Return a unique parameter name `k.<operator>` for each operator, in the characters that MLflow allows."""
    names: list[str] = []
    for operator in operators:
        safe = "k." + "".join(c if c.isalnum() or c in "_- ." else "_" for c in operator)[:200]
        names.append(f"{safe} {len(names)}" if safe in names else safe)
    return names
