"""A bill says how many executors, of which size, for how much, and what it was before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.views.executor_cost import ExecutorCost, ProgramCost


@pytest.mark.parametrize(
    ("bill", "instead_of", "words"),
    [
        (
            ExecutorCost(3, 2, price=0.12),
            ExecutorCost(7, 2, price=0.12),
            "3 executors of 2 cores, 0.36 $ an hour instead of 0.84 $",
        ),
        (ExecutorCost(3, 2, price=0.12), ExecutorCost(3, 2, price=0.12), "3 executors of 2 cores, 0.36 $ an hour"),
        (ExecutorCost(1, 1, "512m"), None, "1 executor of 1 core and 512m"),
        (ExecutorCost(3, 2), ExecutorCost(7, 2), "3 executors of 2 cores instead of 7"),
        (ExecutorCost(3, 2), ExecutorCost(3, 4), "3 executors of 2 cores instead of 3 executors of 4 cores"),
        (ExecutorCost(3, 2, price=0.12), ExecutorCost(7, 2), "3 executors of 2 cores instead of 7"),
        (
            ExecutorCost(2, 2, price=0.15),
            ExecutorCost(3, 1, price=0.1),
            "2 executors of 2 cores, 0.30 $ an hour as before with 3 executors of 1 core",
        ),
        (ExecutorCost(2, 2, price=0.0021, currency="€"), None, "2 executors of 2 cores, 0.0042 € an hour"),
        (ExecutorCost(2000, 8, price=1.5), None, "2000 executors of 8 cores, 3,000.00 $ an hour"),
        (ExecutorCost(0, 2, price=1.5), None, "0 executors of 2 cores, 0.00 $ an hour"),
    ],
)
def test_words(bill: ExecutorCost, instead_of: ExecutorCost | None, words: str) -> None:
    assert bill.words(instead_of) == words


bills = st.builds(
    ExecutorCost,
    st.integers(0, 50),
    st.integers(1, 8),
    st.sampled_from(["", "2g"]),
    st.sampled_from([None, 0.0, 0.05, 1.0]),
)


@given(bills, bills)
def test_one_line_that_names_both_where_they_differ(bill: ExecutorCost, other: ExecutorCost) -> None:
    words = bill.words(other)
    assert "\n" not in words
    assert words.startswith(f"{bill.executors} executor")
    assert (" instead of " in words or " as before with " in words) == (bill != other)
    assert (" an hour" in words) == (bill.price is not None and (bill == other or other.price is not None))


@pytest.mark.parametrize("bad", [{"executors": -1}, {"cores": 0}, {"price": -0.1}, {"price": float("nan")}])
def test_a_bill_of_nonsense_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        ExecutorCost(**{"executors": 1, "cores": 1, **bad})  # type: ignore[arg-type]


NEEDS = {"orders": 2, "clicks": 1}


@pytest.mark.parametrize(
    ("bill", "words"),
    [
        (
            ProgramCost("shops", ExecutorSize(2, price=0.12), NEEDS, now=4),
            "shops: 3 executors of 2 cores, 0.36 $ an hour instead of 0.48 $, are what its 2 queries need: "
            "orders 2, clicks 1",
        ),
        (
            ProgramCost("shops", ExecutorSize(2, price=0.12), NEEDS, now=2, held=True),
            "shops: its 2 queries are held as it is, on 2 executors of 2 cores, 0.24 $ an hour; each by itself: "
            "orders 2, clicks 1",
        ),
        (
            ProgramCost("shops", ExecutorSize(1), NEEDS, now=3, held=True),
            "shops: 3 executors of 1 core, are what its 2 queries need: orders 2, clicks 1",
        ),
        (
            ProgramCost("shops", ExecutorSize(1, price=0.12), {**NEEDS, "views": None}, now=3),
            "shops: what its 3 queries need together is not known, as nothing is advised for views",
        ),
        (
            ProgramCost("shops", ExecutorSize(2, price=0.12), NEEDS, 2, 7200.0, 3, 3600.0, advise=False),
            "shops: its 2 queries took 2 executor-hours, 67% of 3 all the time: 0.24 $ instead of 0.36 $, 0.12 $ saved",
        ),
    ],
)
def test_the_bill_of_a_program_is_one_sentence(bill: ProgramCost, words: str) -> None:
    assert bill.words() == words
    assert bill.as_data()["summary"] == words


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=2),
    st.integers(1, 9),
    st.floats(1, 1e6),
    st.floats(0, 1),
    st.one_of(st.none(), st.floats(0, 9)),
)
def test_what_a_program_pays_and_saves_is_what_its_most_executors_cost(
    needed: dict[str, int], most: int, seconds: float, share: float, price: float | None
) -> None:
    size = ExecutorSize(2, price=price)
    told = ProgramCost("p", size, needed, most, share * most * seconds, most, seconds, advise=False).as_data()
    assert told["executors_needed"] == sum(needed.values())
    assert (told["price"] is None) == (told["saved"] is None) == (price is None)
    if price is not None:
        assert told["price"] + told["saved"] == pytest.approx(most * seconds / 3600 * price)
        assert told["price"] == pytest.approx(told["executor_hours"] * price)
