"""Benefit models as JSON files, to carry them to another store or to keep them under version control."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autotrascale.atomic_files import write_atomically
from autotrascale.domain.errors import InputError
from autotrascale.knowledge.model_card import ModelCard
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.validation import read_file, read_text

FORMAT = "autotrascale-model"


@dataclass(frozen=True)
class _File:
    format: Literal["autotrascale-model"]
    card: ModelCard
    model: dict[str, Any]
    version: Literal[1] = 1


def model_file_name(card: ModelCard) -> str:
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '_', card.job)}-{card.alias}.json"


def write_model(folder: Path, model: BenefitModel, card: ModelCard) -> Path:
    """Write a model into `folder` and return the file.

    Raises:
        InputError: the folder cannot be written, or the file exists and holds another model.
    """
    path = folder / model_file_name(card)
    if path.exists():
        try:
            is_same = read_model(path)[1].digest == card.digest
        except InputError:
            is_same = False
        if not is_same:
            remedy = "remove it, or use another folder"
            raise InputError(str(path), "exists and holds something else", remedy=remedy)
    data = {"format": FORMAT, "version": 1, "card": vars(card), "model": json.loads(model.to_json())}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(data, indent=1) + "\n")
    except OSError as error:
        raise InputError(str(path), "cannot be written", seen=error.strerror, remedy="use another folder") from None
    return path


def read_model(path: Path) -> tuple[BenefitModel, ModelCard]:
    """Return the model and its card. Raise `InputError` if the file is damaged or the card is another model's."""
    file = read_file(path, _File)
    try:
        model = BenefitModel.from_json(json.dumps(file.model))
        file.card.check_matches(model)
    except InputError as error:
        raise error.with_prefix(f"{path}: ") from None
    return model, file.card


def is_model_export(path: Path) -> bool:
    """Return whether the file has a card, and is not a bare model."""
    try:
        data = json.loads(read_text(path))
    except (ValueError, RecursionError):  # an InputError is a ValueError
        return False
    return isinstance(data, dict) and "card" in data
