"""How MLflow itself loads a stored benefit model: `mlflow.pyfunc.load_model("models:/autotrascale.<job>@rate-<R>")`.

The artefact is one JSON file, and this module reads it. This program never asks MLflow to load a model, because
MLflow would import whatever module the artefact names; it fetches the JSON file and reads that.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotrascale.plan.search.benefit_model import BenefitModel

if TYPE_CHECKING:
    import pandas as pd

MODEL_FILE = "model.json"


class Predictor:
    """`predict` takes one row for each configuration, one column for each operator in the model's order."""

    def __init__(self, model: BenefitModel) -> None:
        self.model = model

    def predict(self, model_input: Any) -> pd.DataFrame:
        import pandas as pd

        mean, std = self.model.predict(getattr(model_input, "to_numpy", lambda: model_input)())
        return pd.DataFrame({"mean": mean, "std": std})


def _load_pyfunc(path: str) -> Predictor:
    """MLflow calls this with the path of the data file."""
    return Predictor(BenefitModel.from_json(Path(path).read_text(encoding="utf-8")))
