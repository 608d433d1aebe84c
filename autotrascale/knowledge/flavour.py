"""Models that earlier versions registered name this module as their loader; it is called `pyfunc` now."""

from autotrascale.knowledge.pyfunc import Predictor as Predictor
from autotrascale.knowledge.pyfunc import _load_pyfunc as _load_pyfunc
