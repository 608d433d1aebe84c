from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.jobs.wordcount import WordCount


def sentences(job: WordCount, start: int, end: int) -> list[str]:
    return job.sentences(np.arange(start, end))[0]


@settings(deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 50), st.integers(0, 2**31))
def test_a_sentence_is_a_function_of_its_number_and_the_seed(start: int, count: int, seed: int) -> None:
    job = WordCount(seed=seed)
    assert sentences(job, start, start + count) == sentences(job, start, start + 2 * count)[:count]


def test_the_words_of_a_seed_are_the_same_for_ever() -> None:
    assert WordCount(seed=1).words(np.array([0, 1_000_000])).tolist() == [[98, 45, 248], [339, 263, 818]]


def test_another_seed_gives_other_sentences() -> None:
    assert sentences(WordCount(seed=1), 0, 20) != sentences(WordCount(seed=2), 0, 20)


def test_words_spread_evenly_over_the_vocabulary() -> None:
    counts = np.bincount(WordCount(vocabulary=50).words(np.arange(20_000)).ravel(), minlength=50)
    assert counts.min() > 0.85 * counts.mean()
    assert counts.max() < 1.15 * counts.mean()


def test_skew_makes_the_first_word_the_most_frequent() -> None:
    counts = Counter(WordCount(vocabulary=50, skew=1.2).words(np.arange(5_000)).ravel().tolist())
    assert counts.most_common(1)[0][0] == 0
    assert counts[0] > 5 * counts[20]


def test_a_negative_stall_is_refused() -> None:
    with pytest.raises(InputError, match="flatmap_stall: must not be negative"):
        WordCount(flatmap_stall=-0.1)
