from __future__ import annotations

import pytest
from hypothesis import given

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Operator, Topology, check_source_rates
from autotrascale.testing.strategies import topologies


@given(topologies())
def test_every_upstream_comes_first_in_the_order(topology: Topology) -> None:
    place = {name: i for i, name in enumerate(topology.order)}
    assert set(place) == set(topology)
    for name, operator in topology.operators.items():
        assert all(place[upstream] < place[name] for upstream in operator.upstream)
        assert (name in topology.sources) == (not operator.upstream)


@given(topologies())
def test_vectors_and_named_parallelism_convert_into_each_other(topology: Topology) -> None:
    k = tuple(range(1, len(topology) + 1))
    assert topology.vector(topology.named(k)) == k
    assert list(topology.named(k)) == list(topology)


def test_a_chain_reads_from_the_previous_operator() -> None:
    chain = Topology.chain("source", "map", "sink")
    assert chain.order == ("source", "map", "sink")
    assert [operator.upstream for operator in chain.operators.values()] == [(), ("source",), ("map",)]
    assert chain.sources == ("source",)


def test_the_fingerprint_depends_on_the_shape_only() -> None:
    chain = Topology.chain("a", "b")
    tuned = Topology({"a": Operator(), "b": Operator(("a",), stateful=True, minimum=2, maximum=9)})
    turned = Topology({"b": Operator(("a",)), "a": Operator()})
    assert chain.fingerprint == tuned.fingerprint == turned.fingerprint
    assert chain.fingerprint != Topology.chain("b", "a").fingerprint
    assert chain.fingerprint != Topology.chain("a", "b", "c").fingerprint


def test_a_cycle_is_named() -> None:
    with pytest.raises(InputError, match="operators: form a cycle") as caught:
        Topology({"a": Operator(("b",)), "b": Operator(("a",))})
    assert "a → b → a" in str(caught.value) or "b → a → b" in str(caught.value)


@pytest.mark.parametrize(
    ("operators", "problem"),
    [
        ({}, "operators: is empty"),
        ({"a": Operator(("x",))}, "operators.a.upstream: names an operator that does not exist"),
        ({"a": Operator(), "b": Operator(("a", "a"))}, "operators.b.upstream: names an operator twice"),
    ],
)
def test_invalid_graphs_are_refused(operators: dict[str, Operator], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Topology(operators)


def test_invalid_operators_are_refused() -> None:
    for bounds in ({"minimum": 0}, {"maximum": 0}, {"minimum": 3, "maximum": 2}):
        with pytest.raises(InputError, match=r"minimum|maximum"):
            Operator(**bounds)


def test_every_source_and_no_other_operator_needs_a_rate() -> None:
    chain = Topology.chain("a", "b")
    check_source_rates(chain, {"a": 0.0})
    for rates, problem in (
        ({}, "has no rate for source 'a'"),
        ({"a": 1.0, "b": 1.0}, "so it is no source"),
        ({"a": 1.0, "c": 1.0}, "does not exist"),
        ({"a": -1.0}, "must not be negative"),
        ({"a": float("nan")}, "must be finite"),
    ):
        with pytest.raises(InputError, match=problem):
            check_source_rates(chain, rates)
