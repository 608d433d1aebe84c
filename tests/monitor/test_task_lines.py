"""A brief task has the same numbers as the whole line, or no numbers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.monitor.eventlog.decoding import decode_brief_task
from autotrascale.monitor.eventlog.events import TASK_END, TaskEnd

plain = msgspec.json.Decoder(TaskEnd).decode

numbers = st.one_of(st.integers(0, 10**6), st.integers(-(2**70), 2**70), st.sampled_from([2**31, 2**48, 2**48 + 1]))
texts = st.one_of(st.text(max_size=8), st.sampled_from([',"Task Metrics":{', ',"Accumulables":[', "}]}", "[", "\\"]))
garbage = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)


def block(*names: str, **others: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return any of the fields, in any order, among unknown fields."""
    known: dict[str, st.SearchStrategy[Any]] = {**dict.fromkeys(names, numbers), **others}
    fields = st.fixed_dictionaries({}, optional=known)
    return st.tuples(fields, st.dictionaries(texts, garbage, max_size=2)).flatmap(_shuffled)


def _shuffled(parts: tuple[dict[str, Any], dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.permutations([*(parts[1] | parts[0]).items()]).map(dict)


_TIMES = ("Executor Run Time", "Executor Deserialize Time", "Result Serialization Time", "JVM GC Time")
_metrics = block(
    *_TIMES,
    **{
        "Shuffle Read Metrics": block("Fetch Wait Time", "Total Records Read", **{"Push Based Shuffle": block()}),
        "Shuffle Write Metrics": block("Shuffle Records Written"),
        "Input Metrics": block("Records Read"),
        "Output Metrics": block("Records Written"),
        "Updated Blocks": st.lists(garbage, max_size=2),
    },
)
_accumulables = st.lists(block("ID", "Update", "Value", Name=texts), max_size=3)
_reasons = st.one_of(st.just("Success"), st.sampled_from(["FetchFailed", "TaskKilled"]), texts)
fields = {
    "Stage ID": st.integers(0, 99) | numbers,
    "Task End Reason": st.builds(lambda reason, more: {"Reason": reason} | more, _reasons, block(Accumulables=garbage)),
    "Task Info": st.builds(lambda index, more: {"Index": index} | more, numbers, block(Accumulables=_accumulables)),
    "Task Executor Metrics": block("JVMHeapMemory", "MinorGCCount"),
    "Task Metrics": st.one_of(_metrics, st.none()),
}
as_spark_writes = st.fixed_dictionaries(fields)
in_any_order = st.fixed_dictionaries({}, optional=fields).flatmap(
    lambda told: st.permutations([*told.items()]).map(dict)
)


def line_of(told: dict[str, Any]) -> bytes:
    return json.dumps({"Event": "SparkListenerTaskEnd", **told}, separators=(",", ":")).encode()


def read(decode: Any, line: bytes) -> TaskEnd | None:
    try:
        task: TaskEnd = decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return task


@given(st.one_of(as_spark_writes, in_any_order).map(line_of))
def test_a_whole_line_has_the_same_numbers_or_none(line: bytes) -> None:
    assert read(decode_brief_task, line) == read(plain, line)


@given(as_spark_writes.map(line_of), st.data())
def test_a_damaged_line_is_refused_or_has_its_numbers(line: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(len(TASK_END), len(line) - 1))
    damaged = line[:at] + data.draw(st.binary(max_size=2)) + line[at + 1 :]
    _check(line, damaged, at)


WHOLE = line_of(
    {
        "Stage ID": 3,
        "Task End Reason": {"Reason": "Success"},
        "Task Info": {"Index": 1, "Accumulables": [{"ID": 1, "Name": "a", "Update": "10"}, {"ID": 2, "Name": "b"}]},
        "Task Executor Metrics": {"JVMHeapMemory": 0},
        "Task Metrics": {"Executor Run Time": 5, "Shuffle Read Metrics": {"Fetch Wait Time": 1}, "Updated Blocks": []},
    }
)


@pytest.mark.parametrize("byte", [*(bytes([byte]) for byte in b'[]{}",:\\0-e \n\x00\xff'), b""])
def test_damage_to_any_byte_costs_the_line_or_nothing(byte: bytes) -> None:
    for at in range(len(TASK_END), len(WHOLE)):
        _check(WHOLE, WHOLE[:at] + byte + WHOLE[at + 1 :], at)
    assert read(decode_brief_task, WHOLE) == plain(WHOLE)


def _check(whole: bytes, damaged: bytes, at: int) -> None:
    """Damage in skipped bytes is not seen: then the numbers are those of the line without damage."""
    found, expected = read(decode_brief_task, damaged), read(plain, damaged)
    if found != expected:
        assert whole.index(b"[") < at < whole.rindex(b',"Task Metrics":{')
        assert found == read(plain, whole)
