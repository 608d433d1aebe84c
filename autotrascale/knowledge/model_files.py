"""Benefit models as files: out of one store, into another, or into version control."""

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
    """A file of the same name is replaced only by the same model."""
    path = folder / model_file_name(card)
    if path.exists():
        try:
            same = read_model(path)[1].digest == card.digest
        except InputError:
            same = False
        if not same:
            raise InputError(str(path), "is there and holds something else", remedy="remove it, or use another folder")
    text = json.dumps(
        {"format": FORMAT, "version": 1, "card": vars(card), "model": json.loads(model.to_json())}, indent=1
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text + "\n")
    except OSError as error:
        raise InputError(str(path), "cannot be written", seen=error.strerror, remedy="use another folder") from None
    return path


def read_model(path: Path) -> tuple[BenefitModel, ModelCard]:
    file = read_file(path, _File)
    try:
        model = BenefitModel.from_json(json.dumps(file.model))
        file.card.check_matches(model)
    except InputError as error:
        raise error.under(f"{path}: ") from None
    return model, file.card


def is_model_export(path: Path) -> bool:
    """Whether the file says that it is one of these, and not a bare model."""
    try:
        data = json.loads(read_text(path))
    except (ValueError, RecursionError):  # InputError is one
        return False
    return isinstance(data, dict) and "card" in data
