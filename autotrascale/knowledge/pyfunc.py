"""How MLflow itself loads a stored benefit model: `mlflow.pyfunc.load_model("models:/autotrascale.<job>@rate-<R>")`.

The artefact is one JSON file, and this module reads it. This program never asks MLflow to load a model, because
MLflow would import whatever module the artefact names; it fetches the JSON file and reads that.

What a column means is its name: the operators stand in the model's signature, and columns may come in any order. A
model that was registered before there were signatures takes its columns by their order, as it always did.
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
# What stands in a column of the answer; those of the question are instances of the operator that they are named after.
MEANINGS = {
    SCORE: "benefit score that is expected: 0 to 1, higher is better",
    SPREAD: "standard deviation of the score",
    LATENCY: "latency that is expected, in milliseconds: as likely to be above as below",
}


class Predictor:
    """`predict` takes one row for each configuration and one column for each operator."""

    def __init__(self, model: BenefitModel, operators: Sequence[str] | None = None) -> None:
        self.model, self.operators = model, None if operators is None else tuple(operators)

    def predict(self, model_input: Any, params: object = None) -> pd.DataFrame:  # noqa: ARG002 - as MLflow calls it
        import pandas as pd

        ks = self._within_bounds(_whole_numbers(self._in_order(model_input)))
        answer = dict(zip((SCORE, SPREAD), self.model.predict(ks), strict=True))
        if LATENCY in output_columns(self.model):
            log_ratio, _ = self.model.log_ratio(ks)
            answer[LATENCY] = 1000 * self.model.latency_target * np.exp(log_ratio)
        return pd.DataFrame(answer)

    def _in_order(self, given: Any) -> Any:
        """As the model has its operators. What has no names is in that order already."""
        columns = list(getattr(given, "columns", given if isinstance(given, dict) else ()))
        if self.operators is None or not columns:
            return given
        place, remedy = "columns", f"give one for each of {', '.join(self.operators)}"
        for name in columns:
            if name not in self.operators:
                raise InputError(place, "name an operator that the model does not have", seen=name, remedy=remedy)
            if columns.count(name) > 1:
                raise InputError(place, "name an operator twice", seen=name, remedy=remedy)
        for name in self.operators:
            if name not in columns:
                raise InputError(place, f"do not name the operator {name}", seen=columns, remedy=remedy)
        return np.column_stack([np.atleast_1d(np.asarray(given[name])) for name in self.operators])

    def _within_bounds(self, ks: NDArray[np.int64]) -> NDArray[np.int64]:
        floor, most = self.model.floor, self.model.p_max
        names = self.operators or tuple(f"operator {i + 1}" for i in range(len(floor)))
        if ks.shape[1] != len(floor):
            raise InputError(
                "columns",
                f"are {ks.shape[1]}, and the model has {len(floor)} operators",
                remedy=f"give one for each of {', '.join(names)}",
            )
        outside = np.argwhere((ks < np.array(floor)) | (ks > np.array(most)))
        for row, i in outside[:1]:
            raise InputError(
                f"row {row}: {names[i]}",
                f"lies outside [{floor[i]}, {most[i]}]",
                seen=int(ks[row, i]),
                remedy="ask for what the model was made within",
            )
        return ks


def output_columns(model: BenefitModel) -> tuple[str, ...]:
    """Of the answer. The paper's own model predicts scores and knows no latency."""
    return (SCORE, SPREAD, LATENCY) if model.kind == "latency" else (SCORE, SPREAD)


def build_signature(model: BenefitModel, operators: Sequence[str]) -> ModelSignature:
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    return ModelSignature(
        inputs=Schema([ColSpec("long", name) for name in operators]),
        outputs=Schema([ColSpec("double", name) for name in output_columns(model)]),
    )


def build_metadata(model: BenefitModel, operators: Sequence[str]) -> dict[str, Any]:
    """What a signature has no word for: units and bounds."""
    bounds = zip(operators, model.floor, model.p_max, strict=True)
    return {
        "inputs": {name: {"unit": "instances", "least": least, "most": most} for name, least, most in bounds},
        "outputs": {name: MEANINGS[name] for name in output_columns(model)},
        "rate_per_second": model.rate,
        "latency_target_ms": 1000 * model.latency_target,
    }


def _whole_numbers(given: Any) -> NDArray[np.int64]:
    try:
        ks = np.atleast_2d(np.asarray(getattr(given, "to_numpy", lambda: given)(), dtype=float))
    except (TypeError, ValueError) as error:
        raise InputError("rows", f"are no numbers: {error}", remedy="give instances of each operator") from None
    wrong = np.argwhere(~(np.isfinite(ks) & (ks == np.round(ks)))) if ks.ndim == 2 else np.zeros((0, 2))
    if ks.ndim != 2:
        raise InputError("rows", f"have {ks.ndim} dimensions", remedy="give one row for each configuration")
    for row, i in wrong[:1]:
        raise InputError(
            f"row {row}",
            "holds what is no whole number",
            seen=float(ks[row, i]),
            remedy="give instances of each operator",
        )
    return ks.astype(np.int64)


def _load_pyfunc(path: str) -> Predictor:
    """Return the predictor of the model file at `path`; MLflow calls this function by its name."""
    file = Path(path)
    return Predictor(BenefitModel.from_json(file.read_text(encoding="utf-8")), _operators(file.parents[1]))


def _operators(folder: Path) -> tuple[str, ...] | None:
    """By the signature; None for a model of before there was one."""
    if not (folder / "MLmodel").is_file():
        return None
    from mlflow.models import Model

    signature = Model.load(str(folder)).signature
    schema = None if signature is None else signature.inputs
    return None if schema is None else tuple(str(name) for name in schema.input_names())
