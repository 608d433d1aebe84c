"""AuTraScale: find the least parallelism that holds the latency target of a streaming job.

The public names are imported from here and loaded on first use, which keeps `import autotrascale` and the command line
fast. `Flow`, `Query`, `attach`, `job` and `mark` describe PySpark jobs and need pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotrascale.domain.topology import Operator as Operator
    from autotrascale.execute.spark.driver_agent.attach import attach as attach
    from autotrascale.execute.spark.jobs.flow import Flow as Flow
    from autotrascale.execute.spark.jobs.flow import Query as Query
    from autotrascale.execute.spark.jobs.flow import job as job
    from autotrascale.execute.spark.jobs.marking import mark as mark
    from autotrascale.study import BenefitModel as BenefitModel
    from autotrascale.study import Study as Study

__all__ = ["BenefitModel", "Flow", "Operator", "Query", "Study", "attach", "job", "mark"]
__version__ = "0.1.0"

_FLOW = "autotrascale.execute.spark.jobs.flow"
_HOMES = {
    "BenefitModel": "autotrascale.study",  # which also makes notebooks display it
    "Flow": _FLOW,
    "Operator": "autotrascale.domain.topology",
    "Query": _FLOW,
    "Study": "autotrascale.study",
    "attach": "autotrascale.execute.spark.driver_agent.attach",
    "job": _FLOW,
    "mark": "autotrascale.execute.spark.jobs.marking",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'autotrascale' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        problem = f"autotrascale.{name} needs pyspark, which is not installed: pip install 'autotrascale[spark]'"
        raise ImportError(problem, name=error.name) from error
