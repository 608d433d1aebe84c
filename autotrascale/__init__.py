"""AuTraScale: the least parallelism that holds a streaming job's latency target.

The two names most people need are imported from here. They are resolved on first use, because the
mathematics behind them takes a second to import and `autotrascale --help` should not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotrascale.plan.search.benefit_model import BenefitModel as BenefitModel
    from autotrascale.plan.search.study import Study as Study

__all__ = ["BenefitModel", "Study"]
__version__ = "0.1.0"

_HOMES = {"BenefitModel": "autotrascale.plan.search.benefit_model", "Study": "autotrascale.plan.search.study"}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'autotrascale' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
