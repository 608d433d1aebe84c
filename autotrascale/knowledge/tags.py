"""The names under which runs carry what they are: MLflow's own, and ours."""

from __future__ import annotations

from collections.abc import Sequence

PARENT_RUN = "mlflow.parentRunId"
RUN_NAME = "mlflow.runName"

KIND = "autotrascale.kind"
TUNING, EVALUATION, IMPORT, AUTOSCALING = "tuning", "evaluation", "import", "autoscaling"

JOB = "autotrascale.job"
SESSION = "autotrascale.session"  # of a control loop, as the journal of decisions names it
JOB_FILE = "autotrascale.job_file_sha256"
TOPOLOGY = "autotrascale.topology"
ENGINE = "autotrascale.engine"
SIMULATED = "autotrascale.simulated"
RATE = "autotrascale.rate"
LATENCY_TARGET = "autotrascale.latency_target"

OWNER = "autotrascale.owner"
HEARTBEAT = "autotrascale.heartbeat"
CANCEL = "autotrascale.cancel"
# Of a lease (lease.py), beside the two above: what its holder does, what it works on, whether it has let go.
DOING = "autotrascale.doing"
WHAT = "autotrascale.what"
RELEASED = "autotrascale.released"
# Of a run that a server was asked for (service/queue): what for, by which server, under which key of the client's.
REQUEST = "autotrascale.request"
SERVER = "autotrascale.server"
QUEUE = "autotrascale.queue"
KEY = "autotrascale.idempotency_key_sha256"

ASKED = "autotrascale.asked"  # who asked for what of it (asking.py)
ENDED = "autotrascale.ended"  # why a run that did not finish came to its end

NUMBER = "autotrascale.number"
PHASE = "autotrascale.phase"
POLICY = "autotrascale.policy"  # who decided
VERDICT = "autotrascale.verdict"
PARALLELISM = "autotrascale.parallelism"
MET_TARGET = "autotrascale.met_target"
STOP_REASON = "autotrascale.stop_reason"

OPENING_FILE, OUTCOME_FILE, TRIALS = "run.json", "outcome.json", "trials"

_TAG_LIMIT = 500  # characters; more is for artefacts


def format_vector(ks: Sequence[int]) -> str:
    text = "(" + ",".join(str(k) for k in ks) + ")"
    return text if len(text) <= _TAG_LIMIT else text[: _TAG_LIMIT - 3] + "..."


def trial_file_name(number: int, run_id: str) -> str:
    """All trials are artefacts of the tuning run, so that one request finds them; `run_id` is the nested run's."""
    return f"{number:04}-{run_id[:8]}.json"


def param_names(operators: Sequence[str]) -> list[str]:
    """`k.<operator>`, in the characters that MLflow allows, no two the same."""
    names: list[str] = []
    for operator in operators:
        safe = "k." + "".join(c if c.isalnum() or c in "_- ." else "_" for c in operator)[:200]
        names.append(f"{safe} {len(names)}" if safe in names else safe)
    return names
