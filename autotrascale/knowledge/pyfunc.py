"""The MLflow flavour of a benefit model: `mlflow.pyfunc.load_model("models:/autotrascale.<job>@rate-<R>")`.

The artefact is one JSON file, which this module reads. AuTraScale itself never loads a model through MLflow, because
MLflow imports the module that the artefact names. It downloads the JSON file and reads it.

The model's signature names the operators, so the columns of a data frame may come in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autotrascale.domain.errors import InputError
from autotrascale.plan.search.benefit_model import BenefitModel

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.models import ModelSignature

MODEL_FILE = "model.json"
SCORE, SPREAD, LATENCY = "mean", "std", "latency_ms"
# Meanings of the output columns. An input column holds the instances of the operator of its name.
MEANINGS = {
    SCORE: "expected benefit score: 0 to 1, higher is better",
    SPREAD: "standard deviation of the score",
    LATENCY: "expected latency in milliseconds: the median of the prediction",
}


class Predictor:
    """A benefit model that predicts from rows of instances, one column for each operator.

    Args:
        model: the model.
        operators: names of its operators, in the order of its vectors.
    """

    def __init__(self, model: BenefitModel, operators: Sequence[str]) -> None:
        self.model, self.operators = model, tuple(operators)

    def predict(self, model_input: Any, params: object = None) -> pd.DataFrame:  # noqa: ARG002 - MLflow passes it
        """Return one row of predictions for each row of instances.

        Args:
            model_input: data frame or mapping with a column for each operator, or an array in the model's order.
            params: not used.

        Raises:
            InputError: a column is missing or unknown, or a value is not a whole number within the model's bounds.
        """
        import pandas as pd

        ks = self._check_bounds(_parse_whole_numbers(self._sort_columns(model_input)))
        answer = dict(zip((SCORE, SPREAD), self.model.predict(ks), strict=True))
        if LATENCY in output_columns(self.model):
            log_ratio, _ = self.model.log_ratio(ks)
            answer[LATENCY] = 1000 * self.model.latency_target * np.exp(log_ratio)
        return pd.DataFrame(answer)

    @property
    def _remedy(self) -> str:
        return f"give one for each of {', '.join(self.operators)}"

    def _sort_columns(self, rows: Any) -> Any:
        """Return the columns in the model's order. Rows without column names have this order already."""
        columns = list(getattr(rows, "columns", rows if isinstance(rows, dict) else ()))
        if not columns:
            return rows
        for name in columns:
            if name not in self.operators:
                raise InputError("columns", "name an unknown operator", seen=name, remedy=self._remedy)
            if columns.count(name) > 1:
                raise InputError("columns", "name an operator twice", seen=name, remedy=self._remedy)
        for name in self.operators:
            if name not in columns:
                raise InputError("columns", f"do not name the operator {name}", seen=columns, remedy=self._remedy)
        return np.column_stack([np.atleast_1d(np.asarray(rows[name])) for name in self.operators])

    def _check_bounds(self, ks: NDArray[np.int64]) -> NDArray[np.int64]:
        floor, most = self.model.floor, self.model.p_max
        if ks.shape[1] != len(floor):
            problem = f"are {ks.shape[1]}, and the model has {len(floor)} operators"
            raise InputError("columns", problem, remedy=self._remedy)
        outside = np.argwhere((ks < np.array(floor)) | (ks > np.array(most)))
        for row, i in outside[:1]:
            place, problem = f"row {row}: {self.operators[i]}", f"lies outside [{floor[i]}, {most[i]}]"
            raise InputError(place, problem, seen=int(ks[row, i]), remedy="stay within the bounds of the model")
        return ks


def output_columns(model: BenefitModel) -> tuple[str, ...]:
    """Return the names of the predicted columns. The paper's own model predicts scores and no latency."""
    return (SCORE, SPREAD, LATENCY) if model.kind == "latency" else (SCORE, SPREAD)


def build_signature(model: BenefitModel, operators: Sequence[str]) -> ModelSignature:
    """Return the MLflow signature: names and types of the columns."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    return ModelSignature(
        inputs=Schema([ColSpec("long", name) for name in operators]),
        outputs=Schema([ColSpec("double", name) for name in output_columns(model)]),
    )


def build_metadata(model: BenefitModel, operators: Sequence[str]) -> dict[str, Any]:
    """Return the units and bounds of the columns, which a signature cannot hold."""
    bounds = zip(operators, model.floor, model.p_max, strict=True)
    return {
        "inputs": {name: {"unit": "instances", "least": least, "most": most} for name, least, most in bounds},
        "outputs": {name: MEANINGS[name] for name in output_columns(model)},
        "rate_per_second": model.rate,
        "latency_target_ms": 1000 * model.latency_target,
    }


def _parse_whole_numbers(rows: Any) -> NDArray[np.int64]:
    remedy = "give the instances of each operator"
    try:
        ks = np.atleast_2d(np.asarray(getattr(rows, "to_numpy", lambda: rows)(), dtype=float))
    except (TypeError, ValueError) as error:
        raise InputError("rows", f"are not numbers: {error}", remedy=remedy) from None
    if ks.ndim != 2:
        raise InputError("rows", f"have {ks.ndim} dimensions", remedy="give one row for each configuration")
    wrong = np.argwhere(~(np.isfinite(ks) & (ks == np.round(ks))))
    for row, i in wrong[:1]:
        raise InputError(
            f"row {row}", "holds a value that is not a whole number", seen=float(ks[row, i]), remedy=remedy
        )
    return ks.astype(np.int64)


def _load_pyfunc(path: str) -> Predictor:
    """Return the predictor of an artefact. MLflow calls this with the path of the model's JSON file."""
    from mlflow.models import Model

    file = Path(path)
    model = BenefitModel.from_json(file.read_text(encoding="utf-8"))
    signature = Model.load(str(file.parents[1])).signature
    return Predictor(model, [str(name) for name in signature.inputs.input_names()])
