from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from autotrascale import BenefitModel, Study
from autotrascale.domain.errors import InputError
from autotrascale.plan.search import surrogate
from autotrascale.plan.search.ask_tell import SearchSettings
from autotrascale.plan.search.benefit_model import ANCESTORS, ModelSample, build_readings
from autotrascale.plan.sizing.sizing import Sizing


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: with small matrices, threads wait for each other, especially on a busy machine."""
    with threadpool_limits(1):
        yield


BAD = json.loads((Path(__file__).parents[1] / "bad_input" / "models.json").read_text())
FLOOR, P_MAX, TARGET = (2, 3), 9, 0.35


def latency(k: tuple[int, ...]) -> float:
    return 0.05 + sum(0.5 / x for x in k)


def studied(runs: int = 4, floor: tuple[int, ...] = FLOOR, **options: Any) -> Study:
    study = Study(floor, P_MAX, TARGET, **options)
    for _ in range(runs):
        k = study.ask()
        study.tell(k, latency=latency(k))
    return study


@cache
def model(kind: str) -> BenefitModel:
    match kind:
        case "latency":
            return studied().model(100)
        case "score":
            return studied(faithful=True).model(100)
        case "warm":
            return studied(
                2,
                (3, 4),
                source=model("latency"),
                sizing=Sizing.of_loads((3, 4), (9, 9), (2.5, 3.1), execution="pipelined"),
            ).model(150)
        case "failed":
            study = studied(2)
            study.tell((4, 4), failed=True)
            return study.model(100)
    raise AssertionError(kind)


KINDS = ("latency", "score", "warm", "failed")
SOME = np.array([(2, 3), (3, 4), (5, 9), (9, 9)])


@pytest.mark.parametrize("kind", KINDS)
def test_json_keeps_every_bit_of_the_answers(kind: str) -> None:
    kept = BenefitModel.from_json(model(kind).to_json())
    assert kept == model(kind)
    for one, other in zip(kept.predict(SOME), model(kind).predict(SOME), strict=True):
        assert np.array_equal(one, other)
    assert BenefitModel.from_json(kept.to_json()).to_json() == kept.to_json()


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_predicts_the_scores_of_its_study(kind: str) -> None:
    mean, std = model(kind).predict(SOME)
    assert mean.shape == std.shape == (4,)
    assert ((mean > 0) & (mean <= 1.05)).all()
    assert (std >= 0).all()
    for sample in model(kind).samples:
        if sample.latency is not None:
            assert model(kind).predict([sample.k])[0] == pytest.approx(sample.score, abs=0.05)


def test_a_latency_model_is_the_posterior_of_its_study() -> None:
    samples = model("latency").samples
    fitted = surrogate.fit(
        build_readings(samples, TARGET, Sizing.of_loads(FLOOR, (9, 9))), noise=model("latency").noise
    )
    assert np.array_equal(model("latency").log_ratio(SOME)[0], fitted.log_ratio(SOME)[0])


def test_samples_carry_latency_score_and_windows() -> None:
    study = Study(FLOOR, P_MAX, TARGET)
    study.tell((2, 4), latency=0.2)
    study.tell((2, 4), latency=0.8)
    study.tell((3, 3), failed=True)
    twice, failed = study.model(10).samples
    assert (twice.k, twice.windows) == ((2, 4), 2)
    assert twice.latency == pytest.approx(0.4)
    assert twice.score == pytest.approx(float(study.benefit.score((2, 4), 0.4)))
    assert failed == ModelSample((3, 3), None, float(study.benefit.score((3, 3), math.inf)))


def noise_of(model: BenefitModel) -> float:
    return surrogate.fit(model.readings, noise=model.noise).noise


@settings(max_examples=40, deadline=None)
@given(noise=st.floats(0.02, 0.12), said=st.sampled_from([0.03, 0.05, 0.1]), seed=st.integers(0, 99))
def test_noise_is_learned_from_repeated_windows(noise: float, said: float, seed: int) -> None:
    """The learned noise moves from the configured towards the observed noise, within limits; a model stores it."""
    rng = np.random.default_rng(seed)
    study = Study(FLOOR, P_MAX, TARGET, settings=SearchSettings(noise=said))
    study.tell((3, 3), latency=0.2)
    assert noise_of(study.model(10)) == pytest.approx(said)
    for _ in range(60):
        study.tell((2, 4), latency=0.3 * math.exp(noise * rng.standard_normal()))
    learned = noise_of(BenefitModel.from_json(study.model(10).to_json()))
    assert learned == pytest.approx(min(max(noise, said / 2), 2 * said), rel=0.35)


@pytest.mark.parametrize("apart", [1.0, 40.0])
def test_repeated_windows_of_a_source_count_only_if_it_is_of_the_same_job(apart: float) -> None:
    """Latencies 40 times as high are of another job."""
    study = Study(FLOOR, P_MAX, TARGET)
    for k in ((2, 4), (3, 3), (4, 6)):
        for times in (1.0, 1.2, 1.0, 1.2):
            study.tell(k, latency=apart * times * latency(k))
    source, own = study.model(10).readings, studied(3).model(10).readings
    found = surrogate.fit(own, [source])
    assert (found.doubts == (None,)) == (apart > 1)
    assert (found.noise > 0.06) == (apart == 1)


def test_windows_without_a_known_scatter_say_nothing_of_the_noise() -> None:
    study = Study(FLOOR, P_MAX, TARGET)
    for seconds in (0.2, 0.9, 0.2, 0.9):
        study.tell((2, 4), latency=seconds)
    made = study.model(10)
    without = replace(made, samples=tuple(replace(sample, scatter=None) for sample in made.samples))
    assert noise_of(without) == pytest.approx(0.05)
    assert noise_of(made) == pytest.approx(0.1)  # at most twice the configured noise


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_a_source_for_studies_with_and_without_an_execution_model(kind: str) -> None:
    """Either the source or the study may know the execution model."""
    for execution in (None, "micro-batch"):
        sized = Sizing.of_loads((3, 3), (12, 12), execution=execution)  # type: ignore[arg-type]
        study = Study((3, 3), 12, 0.3, source=model(kind), sizing=sized)
        k = study.ask()
        study.tell(k, latency=latency(k))
        assert study.ask() in study.lattice


def test_a_score_model_is_a_source_of_the_default_search() -> None:
    """It has the same runs."""
    warm = Study(FLOOR, P_MAX, TARGET, source=model("score"))
    warm.tell((3, 4), latency=latency((3, 4)))
    assert [ancestor.rate for ancestor in warm.model(120).ancestors] == [100]


def test_ancestors_are_limited_and_have_no_ancestors() -> None:
    source = model("latency")
    for i in range(ANCESTORS + 2):
        source = studied(1, (2 + i % 2, 3), source=source).model(200 + i)
    assert len(source.ancestors) == ANCESTORS
    assert source.ancestors[0].rate == 200 + ANCESTORS
    assert all(ancestor.ancestors == () for ancestor in source.ancestors)
    size = len(source.to_json())
    assert size < len(studied(1, source=source).model(300).to_json()) * 1.5 < 40_000


def test_a_model_for_another_target_uses_the_same_runs() -> None:
    doubled = model("latency").towards(2 * TARGET)
    assert np.allclose(doubled.log_ratio(SOME)[0], model("latency").log_ratio(SOME)[0] - math.log(2), atol=0.02)


# --- bad input ---------------------------------------------------------------------------------------------------


def spoilt(case: dict[str, Any]) -> str:
    if "text" in case:
        return str(case["text"])
    if "repeat" in case:
        before, what, times, after = case["repeat"]
        return str(before + what * times + after)
    data = json.loads(model("latency").to_json())
    data.pop(case.get("without"), None)
    if "sample" in case:
        first = {**data["samples"][0], **case["sample"]}
        data["samples"][0] = {name: value for name, value in first.items() if value != "DELETE"}
    if "ancestor" in case:
        data["ancestors"] = [{**json.loads(model("latency").to_json()), **case["ancestor"]}]
    return json.dumps({**data, **case.get("with", {})})


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["name"])
def test_a_bad_model_is_refused_in_one_line(case: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        BenefitModel.from_json(spoilt(case))
    assert str(caught.value).startswith(case["says"])
    assert "\n" not in str(caught.value)


HOSTILE = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            False,
            "",
            "x",
            [],
            {},
            [[]],
            [None],
            math.nan,
            math.inf,
            1e308,
            -1e308,
            5e-324,
            2**62,
            10**17,
            -1,
            0,
            0.5,
            1,
            2,
            17,
            [1e9, 1e9],
            [0, 0],
            "latency",
            "score",
            "pipelined",
        ]
    ),
    st.floats(),
    st.integers(-(10**17), 10**17),
    st.lists(st.floats(-20, 20), max_size=8),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, each in inside for deeper in places(each, (*path, key)))]


@settings(max_examples=120)
@given(st.sampled_from(KINDS), st.data())
def test_a_modified_model_is_refused_or_works(kind: str, data: st.DataObject) -> None:
    """Only `InputError` is raised, and every prediction is a finite number."""
    value = json.loads(model(kind).to_json())
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(places(value)[1:]))
        inner = value
        for step in way:
            inner = inner[step]
        match data.draw(st.sampled_from(("replace", "remove", "repeat"))):
            case "remove":
                del inner[last]
            case "repeat" if isinstance(inner, list):
                inner.append(inner[last])
            case _:
                inner[last] = data.draw(HOSTILE)
    refused_or_works(json.dumps(value))


@settings(max_examples=60)
@given(st.sampled_from(KINDS), st.data())
def test_a_damaged_model_file_is_refused_or_works(kind: str, data: st.DataObject) -> None:
    text = model(kind).to_json()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    refused_or_works(text[:start] + data.draw(st.text(max_size=4)) + text[end:])


def refused_or_works(text: str) -> None:
    try:
        changed = BenefitModel.from_json(text)
        with warnings.catch_warnings():
            # scikit-learn warns when rounding makes a variance negative, and uses zero.
            warnings.filterwarnings("ignore", message="Predicted variances smaller than 0")
            predicted = changed.predict([changed.floor, changed.p_max])
            again = BenefitModel.from_json(changed.to_json()).predict([changed.floor, changed.p_max])
    except InputError:
        return
    assert np.isfinite(predicted).all()
    assert np.array_equal(predicted, again)


def test_a_model_without_runs_is_refused() -> None:
    with pytest.raises(InputError, match="samples: is empty"):
        BenefitModel("latency", 1.0, Sizing.of_loads(FLOOR, (9, 9)), TARGET, 0.5, 0.5, ())
