"""AuTraScale: the least parallelism that holds a streaming job's latency target.

The names that most people need are imported from here. They are resolved on first use, because the mathematics behind
them takes a second to import and `autotrascale --help` should not; those that describe a PySpark job need pyspark, and
nothing else does.
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
    from autotrascale.plan.search.benefit_model import BenefitModel as BenefitModel
    from autotrascale.study import Study as Study

__all__ = ["BenefitModel", "Flow", "Operator", "Query", "Study", "attach", "job", "mark"]
__version__ = "0.1.0"

_FLOW = "autotrascale.execute.spark.jobs.flow"
_HOMES = {
    "BenefitModel": "autotrascale.plan.search.benefit_model",
    "Flow": _FLOW,
    "Operator": "autotrascale.domain.topology",
    "Query": _FLOW,
    "Study": "autotrascale.study",
    "attach": "autotrascale.execute.spark.driver_agent.attach",
    "job": _FLOW,
    "mark": "autotrascale.execute.spark.jobs.marking",
}


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
