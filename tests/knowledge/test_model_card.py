"""The choice of the stored models that a run starts from, and the reasons against each other model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.knowledge.model_card import ModelCard, ModelRequest, StoredModel, choose_models, rate_alias

CARD = ModelCard("small", 100.0, "abc", ("source", "count"), 0.2, "mean", "pipelined", True, "latency", "d1", "r1")
WANTED = ModelRequest(100.0, "abc", ("source", "count"), "mean", "pipelined", True)


def stored(version: int, card: ModelCard | InputError) -> StoredModel:
    return StoredModel("autotrascale.small", version, card)


def at(*rates: float) -> list[StoredModel]:
    return [stored(i + 1, replace(CARD, rate=rate)) for i, rate in enumerate(rates)]


def chosen(models: list[StoredModel], wanted: ModelRequest = WANTED, count: int = 3) -> list[int]:
    return [each.version for each in choose_models(models, wanted, count).chosen]


def test_tags_say_what_the_card_says() -> None:
    for card in (
        CARD,
        replace(CARD, execution=None, rate=1e-3, operators=("a b", "漢"), simulated=False, cold_trials=7),
    ):
        assert ModelCard.from_tags(card.as_tags()) == card


@pytest.mark.parametrize(
    ("tag", "value", "said"),
    [
        ("rate", None, "tags.rate: is missing"),
        ("rate", "fast", "tags: cannot be read: could not convert"),
        ("rate", "-1", "tags.rate: must be above zero"),
        ("rate", "nan", "tags.rate: must be finite"),
        ("simulated", "maybe", "is missing or has an unknown value"),
        ("statistic", "p42", "tags.statistic: is not a latency statistic"),
        ("execution", "magic", "tags.execution: is not an execution model"),
        ("operators", "[", "tags: cannot be read"),
        ("operators", "5", "tags: cannot be read"),
        ("job", "", "tags.job: is empty"),
        ("cold_trials", "many", "tags: cannot be read"),
        ("cold_trials", "0", "tags.cold_trials: must be at least 1"),
    ],
)
def test_damaged_tags_are_passed_over_by_name(tag: str, value: str | None, said: str) -> None:
    tags = {name: text for name, text in CARD.as_tags().items() if name != tag}
    with pytest.raises(InputError, match=said) as caught:
        ModelCard.from_tags(tags if value is None else {**tags, tag: value})
    choice = choose_models([stored(1, caught.value)], WANTED)
    assert choice.chosen == ()
    assert choice.skipped_models[0].startswith("models:/autotrascale.small/1: tags")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topology": "xyz"}, "it is of another topology (source, count)"),
        ({"operators": ("count", "source")}, "its operators come in another order (count, source)"),
        ({"statistic": "p95"}, "its target is on the p95 latency, not the mean"),
        ({"execution": "micro-batch"}, "it was measured under micro-batch execution, not pipelined"),
        ({"simulated": False}, "it was made on a real engine"),
        ({"kind": "score"}, "it predicts scores only, and the default search needs latencies"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_the_reason(change: dict[str, object], said: str) -> None:
    choice = choose_models([stored(1, replace(CARD, **change)), stored(2, CARD)], WANTED)  # type: ignore[arg-type]
    assert [each.version for each in choice.chosen] == [2]
    assert choice.skipped_models == (f"models:/autotrascale.small/1: {said}",)


def test_a_simulated_model_is_not_for_a_real_run() -> None:
    assert replace(WANTED, simulated=False).find_mismatch(CARD) == "it was made on the simulator"


def test_what_is_not_known_does_not_stand_in_the_way() -> None:
    assert WANTED.find_mismatch(replace(CARD, execution=None)) is None
    assert replace(WANTED, execution=None).find_mismatch(CARD) is None
    assert WANTED.find_mismatch(replace(CARD, latency_target=5.0)) is None
    assert replace(WANTED, faithful=True).find_mismatch(replace(CARD, kind="score")) is None


def test_the_nearest_rate_is_nearest_in_proportion() -> None:
    assert chosen(at(60.0, 190.0, 1000.0, 9.0), count=2) == [1, 2]
    assert chosen(at(40.0, 200.0), count=1) == [2]


def test_rates_are_numbers_not_text() -> None:
    """As text, 90 is nearer to 1000 than 900 is."""
    assert chosen(at(90.0, 900.0), replace(WANTED, rate=1000.0), count=1) == [2]


def test_of_one_rate_the_newest_counts() -> None:
    choice = choose_models(at(100.0, 100.0, 50.0), WANTED)
    assert [each.version for each in choice.chosen] == [2, 3]
    assert choice.skipped_models == ("models:/autotrascale.small/1: version 2 of the same rate is newer",)


def test_those_too_far_are_named() -> None:
    choice = choose_models(at(100.0, 200.0, 400.0), WANTED, count=2)
    assert choice.skipped_models == ("models:/autotrascale.small/3: 2 models are nearer than its rate of 400/s",)


@given(st.lists(st.floats(1e-3, 1e9), max_size=8), st.floats(1e-3, 1e9), st.integers(1, 4))
def test_every_model_is_either_used_or_explained(rates: list[float], rate: float, count: int) -> None:
    choice = choose_models(at(*rates), replace(WANTED, rate=rate), count)
    assert len(choice.chosen) + len(choice.skipped_models) == len(rates)
    assert len(choice.chosen) == min(count, len(set(rates)))


@given(st.floats(1e-6, 1e12))
def test_every_rate_has_an_alias_that_mlflow_takes(rate: float) -> None:
    assert all(character.isalnum() or character in "-_" for character in rate_alias(rate))
    assert rate_alias(350_000.0) == "rate-350000"
    assert rate_alias(0.5) == "rate-0_5"
