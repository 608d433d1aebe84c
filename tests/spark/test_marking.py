"""The allowed names of marks, and how they are recognised.

The effects of marks are tested in `adopted_checks.py` and tests/analyze.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.classic.dataframe import DataFrame

from autotrascale import mark
from autotrascale.domain.errors import InputError
from autotrascale.monitor.marks import (
    COUNTING,
    MARK,
    NAME,
    PARTITION,
    extract_counting_mark,
    extract_naming_marks,
    find_counting_name,
    find_filter_name,
    find_naming_names,
)

NO_PLAN: Any = object.__new__(DataFrame)  # names are looked at before it


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", ".a", "a,b", "ä", "a\n", "a" * 61, "op:a", None, 5, ["a"]])
def test_a_name_that_a_plan_cannot_hold_is_one_line(name: Any) -> None:
    with pytest.raises(InputError) as wrong:
        mark(NO_PLAN, name)
    assert (wrong.value.place, wrong.value.seen) == ("mark", name)
    assert "60 letters" in wrong.value.remedy
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("given_", [None, 5, "df", DataFrame])
def test_what_is_no_data_frame_is_one_line(given_: Any) -> None:
    with pytest.raises(InputError, match="DataFrame") as wrong:
        mark(given_, "enrich")
    assert (wrong.value.place, wrong.value.seen) == ("mark", type(given_).__name__)


@pytest.mark.parametrize(
    ("given_", "what"),
    [
        ({"parallelism": 0}, "mark: parallelism: must be"),
        ({"parallelism": "4"}, "mark: parallelism: must be"),
        ({"by": "shop"}, r"mark: .*parallelism.* \(seen: \['shop'\]\)"),
    ],
)
def test_a_parallelism_that_is_none_is_one_line(given_: Any, what: str) -> None:
    with pytest.raises(InputError, match=f"^{what}"):
        mark(NO_PLAN, "enrich", **given_)


@given(st.from_regex(NAME, fullmatch=True), st.text(max_size=40), st.text(max_size=40))
def test_a_name_is_read_back_from_a_plan_whatever_stands_around_it(name: str, before: str, behind: str) -> None:
    """The name is also read back from the extracted part of a plan."""
    said = f"Filter ({before} AND (cast(SPARK_PARTITION_ID() as string) = {MARK}{name}){behind})"
    assert find_naming_names(said) == find_naming_names(extract_naming_marks(said)) == [name]
    assert find_counting_name(said) is None


@given(st.from_regex(NAME, fullmatch=True), st.text(min_size=1, max_size=40))
def test_a_filter_counts_for_a_mark_only_where_it_is_nothing_else(name: str, more: str) -> None:
    """A filter that Spark merged from several filters passes fewer records than the mark saw."""
    asked = f"((SPARK_PARTITION_ID() >= 0) OR (cast(SPARK_PARTITION_ID() as string) = {COUNTING}{name}))"
    assert find_counting_name(f"Filter {asked}") == find_filter_name(f"Filter {asked}") == name
    assert find_naming_names(f"Filter {asked}") == []
    assert find_counting_name(f"Filter ({asked} AND ({more}))") is None
    column = f"Filter {asked}".replace("cast(SPARK_PARTITION_ID()", f"cast({PARTITION}#{len(more)}")
    assert (find_filter_name(column), extract_counting_mark(column)) == (name, f"Filter {asked}")
    observed = f"CollectMetrics {MARK}{name}, [count(1) AS n#1L]"
    assert (find_counting_name(observed), find_filter_name(observed)) == (name, None)


@given(st.text())
def test_other_text_names_nothing(text: str) -> None:
    assert find_naming_names(text) == []
    assert extract_naming_marks(text) == ""
