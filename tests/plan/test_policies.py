from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.decision import Decision
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Execution, OperatorMetrics, Snapshot
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.plan.policies import registry
from autotrascale.plan.policies.base import Options, Policy
from autotrascale.plan.policies.dhalion import grow_by_backpressure
from autotrascale.plan.policies.drs import erlang_b, erlang_c, sojourn_seconds, use_elapsed_time
from autotrascale.plan.policies.queueing import (
    compute_waiting_probability,
    estimate_response,
    estimate_waiting,
    find_fewest,
    list_paths,
)
from autotrascale.plan.policies.registry import create, known
from autotrascale.plan.policies.stations import Station
from autotrascale.plan.sizing.demand import measure_demand
from autotrascale.plan.sizing.floor import compute_floor
from autotrascale.testing.chain_snapshots import ScriptedPolicy, chain_snapshot
from autotrascale.testing.strategies import P_MAX, snapshots
from autotrascale.validation import validate

GOLDEN = Path(__file__).parents[1] / "golden"
TARGET = Target(0.5)
RIVALS = ("ds2", "drs-true", "drs-observed", "dhalion", "threshold", "queueing", "queueing-path")


def codes(decision: Decision) -> list[str]:
    return [reason.code for reason in decision.reasons]


def texts(decision: Decision) -> list[str]:
    return [reason.text for reason in decision.reasons]


def job(k: int = 4, rate: float = 60.0, **fields: Any) -> Snapshot:
    return chain_snapshot({"source": 1, "map": k}, {"source": 1000.0, "map": 10.0}, rate, **fields)


# --- The registry


def test_an_unknown_policy_is_told_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        create("magic")
    assert str(caught.value).startswith("policy: is not known (seen: 'magic'); use one of autrascale, ds2, drs-true")


@dataclass(frozen=True)
class Patient:
    name: str

    def decide(self, snapshot: Snapshot) -> Decision:
        return Decision.between(self.name, snapshot.parallelism, snapshot.parallelism)


def make_patient(target: Target | None, options: Options) -> Patient:
    return Patient(f"patient-{target.latency_seconds if target else 0}-{options.get('years')}")


def test_a_policy_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("patient", f"{__name__}:make_patient", registry.ENTRY_POINTS)
    asked: list[str] = []

    def entry_points(*, group: str) -> tuple[EntryPoint, ...]:
        asked.append(group)
        return (point,)

    monkeypatch.setattr(registry, "entry_points", entry_points)
    create("ds2")
    assert not asked  # ours are found without looking at every installed package
    assert create("patient", TARGET, {"years": 3}).name == "patient-0.5-3"
    assert known()[-1] == "patient"
    assert asked == ["autotrascale.policies"] * 2


@pytest.mark.parametrize("name", RIVALS)
def test_each_policy_bears_the_name_it_was_asked_for_by(name: str) -> None:
    policy: Policy = create(name, TARGET)
    assert policy.name == name
    assert policy.decide(job()).policy == name


@pytest.mark.parametrize("name", ["drs-true", "drs-observed", "queueing", "queueing-path"])
def test_what_aims_at_a_latency_needs_a_target(name: str) -> None:
    with pytest.raises(InputError, match=f"policy {name}: needs a latency target; give one"):
        create(name)


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("ds2", {"speed": 3}, "policy ds2: speed: is not an option of this policy; use slots"),
        ("threshold", {"low": 3}, "policy threshold: low: is not an option of this policy; use scale_in, "),
        ("threshold", {"scale_in": 200}, "policy threshold: scale_out: is below scale_in = 200"),
        ("threshold", {"cap": 0}, "policy threshold: cap: must be at least 1"),
        ("dhalion", {"wait_windows": -1}, "policy dhalion: wait_windows: must be at least 0"),
        ("dhalion", {"noise_ms": "low"}, "policy dhalion: noise_ms: must be a number"),
        ("queueing", {"alpha": 3}, "policy queueing: alpha: must lie between 0 and 1"),
        ("queueing", {"scope": "job"}, "policy queueing: scope: is not one of the two"),
        ("drs-true", {"rates": "guessed"}, "policy drs-guessed: rates: is not a kind of rate"),
    ],
)
def test_options_that_cannot_be(name: str, options: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        create(name, TARGET, options)
    assert str(caught.value).startswith(problem)


# --- All of them


@given(snapshots(), st.sampled_from(RIVALS))
def test_every_answer_is_within_bounds_and_has_reasons(snapshot: Snapshot, name: str) -> None:
    decision = create(name, TARGET).decide(snapshot)
    assert set(decision.parallelism) == set(snapshot.operators)
    assert all(1 <= k <= P_MAX for k in decision.parallelism.values())
    assert decision.reasons
    assert decision.changed == (decision.parallelism != snapshot.parallelism)
    json.dumps(decision.as_dict(), allow_nan=False)
    if decision.hold:
        assert decision.parallelism == snapshot.parallelism


@given(snapshots(execution="shared"), st.sampled_from(RIVALS))
def test_with_shared_execution_all_operators_get_the_same_workers(snapshot: Snapshot, name: str) -> None:
    decision = create(name, TARGET).decide(snapshot)
    assert not decision.changed or len(set(decision.parallelism.values())) == 1


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("execution", ["pipelined", "shared", "micro-batch"])
def test_nothing_measured_changes_nothing(name: str, execution: Execution) -> None:
    blind = chain_snapshot({"source": 3, "map": 4}, {}, 60.0, execution=execution)
    decision = create(name, TARGET).decide(blind)
    assert decision.hold
    assert decision.parallelism == {"source": 3, "map": 4}
    if codes(decision) != ["hold-no-counterpart"]:
        assert any("map" in text or "source" in text for text in texts(decision))


# --- DS2


@given(snapshots())
def test_ds2_is_the_floor(snapshot: Snapshot) -> None:
    floor = compute_floor(measure_demand(snapshot), snapshot)
    decision = create("ds2").decide(snapshot)
    assert decision.parallelism == floor.parallelism
    assert ("out-of-reach" in codes(decision)) != floor.reachable


def test_ds2_explains_every_operator_with_numbers() -> None:
    golden = json.loads((GOLDEN / "floor.json").read_text())[0]
    decision = create("ds2").decide(validate(golden["snapshot"], Snapshot, place="golden"))
    assert codes(decision) == ["source-kept", "demand", "demand"]
    for text, shown in zip(
        texts(decision), (["1"], ["16,667", "1,667", "10.0 → 10"], ["333,333", "20.0 → 20"]), strict=True
    ):
        assert all(each in text for each in shown)
    numbers = decision.reasons[1].numbers
    assert numbers == {
        "operator": "flatmap",
        "running": 1,
        "wanted": 10,
        "demand": pytest.approx(16666.67, abs=0.01),
        "capacity": pytest.approx(1666.67, abs=0.01),
        "load": pytest.approx(10.0),
    }


def test_ds2_explains_what_operators_share_and_where_bounds_end() -> None:
    batches = create("ds2").decide(job(execution="micro-batch", overhead_share=0.1))
    assert codes(batches)[1:] == ["demand", "batch"]
    assert all(each in texts(batches)[1] for each in ("60/s", "10/s", "6.00 s", "750 ms on 8"))
    assert "91%" in texts(batches)[2]
    (workers,) = [each for each in create("ds2").decide(job(execution="shared")).reasons if each.code == "workers"]
    assert "6.1 workers → 7" in workers.text
    capped = create("ds2").decide(job(operators={"map": {"maximum": 3}}))
    assert codes(capped)[1:] == ["demand", "out-of-reach"]
    assert "6.0 → 3, its maximum" in texts(capped)[1]
    assert capped.reasons[2].numbers == {"reach": 0.5, "short": 0.5}
    at_least = create("ds2").decide(job(operators={"map": {"minimum": 9}}))
    assert "6.0 → 9, its minimum" in texts(at_least)[1]
    assert create("ds2").decide(job(rate=0.0)).reasons[1].code == "no-demand"


# --- DRS


@pytest.mark.parametrize("case", json.loads((GOLDEN / "queueing.json").read_text())["erlang_c"])
def test_golden_erlang_c(case: dict[str, float]) -> None:
    assert erlang_c(int(case["servers"]), case["offered"]) == pytest.approx(case["waits"])


@given(st.integers(1, 40), st.floats(0.01, 0.99))
def test_erlang_c_is_the_textbook_formula_where_that_can_be_computed(k: int, busy: float) -> None:
    a = busy * k
    last = a**k / math.factorial(k) / (1 - busy)
    textbook = last / (sum(a**n / math.factorial(n) for n in range(k)) + last)
    assert erlang_c(k, a) == pytest.approx(textbook, rel=1e-9)
    assert erlang_b(k, a) <= erlang_c(k, a) <= 1


def test_erlang_is_stable_for_many_servers_and_saturation() -> None:
    assert 0 < erlang_c(100_000, 99_900.0) < 1
    assert erlang_c(5000, 100.0) == 0.0
    assert erlang_c(3, 3.0) == erlang_c(3, 9.0) == 1.0
    assert sojourn_seconds(30.0, 10.0, 3) == math.inf
    assert sojourn_seconds(5.0, 10.0, 1) == pytest.approx(0.2)  # M/M/1: 1/(μ − λ)


@given(st.floats(0.1, 50.0), st.integers(1, 60))
def test_another_instance_always_helps_and_always_less(load: float, k: int) -> None:
    now, one, two = (sojourn_seconds(load, 1.0, k + i) for i in range(3))
    if math.isfinite(now):
        assert now >= one >= two >= 1.0
        assert now - one >= (one - two) * (1 - 1e-9) - 1e-12


def total(snapshot: Snapshot, parallelism: dict[str, int]) -> float:
    demand = measure_demand(snapshot)
    return sum(
        (demand.rate[name] or 0)
        / snapshot.target_rate
        * sojourn_seconds(demand.rate[name] or 0, demand.capacity[name] or 1, k)
        for name, k in parallelism.items()
        if demand.rate[name]
    )


def test_drs_ends_at_the_fewest_instances_within_the_target() -> None:
    snapshot = chain_snapshot(
        {"source": 1, "a": 1, "b": 1}, {"source": 200.0, "a": 30.0, "b": 25.0}, 100.0, selectivity={"a": 2.0}
    )
    for seconds in (0.4, 0.2, 0.15, 0.125):
        decision = create("drs-true", Target(seconds)).decide(snapshot)
        found = dict(decision.parallelism)
        assert total(snapshot, found) <= seconds
        cheaper = [
            {"source": i, "a": j, "b": k}
            for i in range(1, 6)
            for j in range(1, 20)
            for k in range(1, 24)
            if i + j + k < sum(found.values())
        ]
        assert all(total(snapshot, other) > seconds for other in cheaper)
        assert decision.reasons[-1].numbers["predicted_seconds"] == pytest.approx(total(snapshot, found))


def test_drs_is_stable_first_and_says_when_it_cannot_be_or_cannot_get_there() -> None:
    assert create("drs-true", Target(100.0)).decide(job()).parallelism["map"] == 7  # six are saturated
    decision = create("drs-true", TARGET).decide(job(operators={"map": {"maximum": 5}}))
    assert decision.parallelism["map"] == 5
    assert codes(decision)[-1] == "out-of-reach"
    assert "predicted_seconds" not in decision.reasons[-1].numbers
    slow = create("drs-true", Target(0.05)).decide(job())
    assert codes(slow)[-1] == "out-of-reach"
    assert slow.reasons[-1].numbers["target_seconds"] == 0.05
    assert "more instances" in texts(slow)[-1]


def test_drs_with_observed_rates_takes_waiting_for_work() -> None:
    """Half of the time spent waiting looks like half the capacity."""
    snapshot = job(12)
    half = replace(snapshot.operators["map"], records_in=3600.0, records_out=3600.0, useful_seconds=360.0)
    waiting_half = replace(snapshot, operators={**snapshot.operators, "map": half})
    assert create("drs-true", Target(1.0)).decide(waiting_half).parallelism["map"] == 7
    assert create("drs-observed", Target(1.0)).decide(waiting_half).parallelism["map"] == 13
    observed = measure_demand(use_elapsed_time(waiting_half))
    assert observed.capacity["map"] == pytest.approx(5.0)


def test_drs_observed_needs_no_useful_time() -> None:
    snapshot = job()
    quiet = replace(snapshot.operators["map"], useful_seconds=None)
    snapshot = replace(snapshot, operators={**snapshot.operators, "map": quiet})
    assert create("drs-true", TARGET).decide(snapshot).hold
    assert not create("drs-observed", TARGET).decide(snapshot).hold


def test_drs_without_demand_needs_the_minimum_and_goes_past_operators_at_their_bound() -> None:
    idle = create("drs-true", TARGET).decide(job(4, rate=0.0, operators={"map": {"minimum": 2}}))
    assert idle.parallelism == {"source": 1, "map": 2}
    assert codes(idle) == ["no-demand", "no-demand", "latency"]
    k, capacity = {"source": 1, "a": 1, "b": 1}, {"source": 500.0, "a": 10.0, "b": 12.0}
    capped = chain_snapshot(k, capacity, 60.0, operators={"a": {"maximum": 8}})
    decision = create("drs-true", Target(0.21)).decide(capped)
    assert decision.parallelism["a"] == 8
    assert codes(decision)[-1] == "latency"


def test_queueing_models_say_that_they_predict_the_mean() -> None:
    for name in ("drs-true", "queueing", "queueing-path"):
        assert "mean-only" in codes(create(name, Target(0.5, "p95")).decide(job()))
        assert "mean-only" not in codes(create(name, TARGET).decide(job()))


# --- Dhalion


def test_dhalions_path_on_the_word_count() -> None:
    golden = json.loads((GOLDEN / "dhalion.json").read_text())
    policy = create("dhalion", options={"wait_windows": 0})
    for stage in golden["steps"]:
        k = {"source": 1, "flatmap": stage["flatmap"], "count": stage["count"]}
        pressure = {name: {"backpressure": share} for name, share in stage["backpressure"].items()}
        decision = policy.decide(chain_snapshot(k, {}, golden["rate"], p_max=golden["p_max"], operators=pressure))
        assert decision.parallelism == {"source": 1, **stage["wanted"]}
        assert codes(decision)[-1] == ("backpressure" if decision.changed else "no-backpressure")


@pytest.mark.parametrize(
    ("n", "s", "new"), [(1, 900, 5), (5, 500, 10), (4, 200, 5), (3, 0, 3), (2, 5000, 10), (1, 1, 2)]
)
def test_dhalions_growth(n: int, s: float, new: int) -> None:
    assert grow_by_backpressure(n, s) == new


def pressed(k: int, share: float, rate: float = 60.0) -> Snapshot:
    return job(k, rate, operators={"source": {"backpressure": share}})


def test_dhalion_waits_and_then_blacklists_what_did_not_help() -> None:
    policy = create("dhalion", options={"wait_windows": 2})
    assert policy.decide(pressed(4, 0.5)).parallelism["map"] == 8
    assert policy.decide(pressed(4, 0.5)).parallelism["map"] == 8  # not carried out yet: asked for again
    waits = [policy.decide(pressed(8, 0.5)) for _ in range(2)]
    assert [codes(decision) for decision in waits] == [["hold-waiting"]] * 2
    judged = policy.decide(pressed(8, 0.5))
    assert codes(judged) == ["ineffective", "blacklisted", "no-action-left"]
    assert not judged.changed
    assert not policy.decide(pressed(8, 0.6)).changed
    assert policy.decide(pressed(8, 0.5, rate=70.0)).parallelism["map"] == 16  # other rates, another chance


def test_dhalion_goes_on_with_what_helped() -> None:
    policy = create("dhalion", options={"wait_windows": 1})
    policy.decide(pressed(4, 0.5))
    policy.decide(pressed(8, 0.2))
    assert policy.decide(pressed(8, 0.2)).parallelism["map"] == 10


def test_dhalion_blames_the_operator_that_is_not_held_up_itself() -> None:
    operators = {
        "source": OperatorMetrics(parallelism=1, backpressure=0.9),
        "a": OperatorMetrics(parallelism=2, upstream=("source",), backpressure=0.3),
        "b": OperatorMetrics(parallelism=2, upstream=("source",), backpressure=0.4),
        "join": OperatorMetrics(parallelism=2, upstream=("a", "b")),
    }
    decision = create("dhalion").decide(replace(job(), operators=operators))
    assert decision.parallelism == {"source": 1, "a": 2, "b": 2, "join": 7}  # 2 · (1 + 700/300), up


def test_dhalion_at_its_bound_and_below_the_noise() -> None:
    capped = job(4, operators={"source": {"backpressure": 0.5}, "map": {"maximum": 4}})
    assert codes(create("dhalion").decide(capped)) == ["no-action-left"]
    assert create("dhalion").decide(pressed(4, 0.002)).changed
    assert not create("dhalion", options={"noise_ms": 5.0}).decide(pressed(4, 0.002)).changed


# --- Threshold


@pytest.mark.parametrize(("backlog", "wanted"), [(0, 3), (50, 3), (51, 4), (150, 4), (151, 5)])
def test_threshold(backlog: float, wanted: int) -> None:
    decision = create("threshold").decide(job(4, operators={"map": {"backlog_records": backlog}}))
    assert decision.parallelism == {"source": 1, "map": wanted}
    assert codes(decision) == ["backlog", "hold-unknown-backlog"]
    assert decision.reasons[1].numbers == {"operators": "source", "field": "backlog_records"}
    assert not decision.hold


def test_threshold_ends_at_its_cap_and_at_the_minimum() -> None:
    full, empty = {"map": {"backlog_records": 1e6}}, {"map": {"backlog_records": 0}}
    ends = [create("threshold").decide(job(k, operators=full)).parallelism["map"] for k in (14, 15, 16)]
    assert ends == [15, 15, 16]
    assert create("threshold", options={"cap": 20}).decide(job(15, operators=full)).parallelism["map"] == 16
    assert create("threshold").decide(job(1, operators=empty)).parallelism["map"] == 1
    options = {"scale_in": 10.0, "scale_out": 20.0}
    assert create("threshold", options=options).decide(job(4, operators={"map": {"backlog_records": 21}})).changed


# --- Queueing


@pytest.mark.parametrize("case", json.loads((GOLDEN / "queueing.json").read_text())["must_wait"])
def test_golden_probability_of_waiting(case: dict[str, float]) -> None:
    assert compute_waiting_probability(case["rho"], int(case["k"])) == pytest.approx(case["waits"])


@given(st.floats(0.7, 0.99))
def test_one_server_without_variability_of_its_own_is_m_m_1(rho: float) -> None:
    assert estimate_waiting(rho, 1.0, 1) == pytest.approx(rho / (1 - rho))


def test_variability_scales_the_waiting_time() -> None:
    assert estimate_waiting(8.0, 10.0, 1, 4.0) == pytest.approx(2 * estimate_waiting(8.0, 10.0, 1, 2.0))
    assert estimate_waiting(8.0, 10.0, 1, 0.0) == 0.0
    assert estimate_waiting(10.0, 10.0, 1) == math.inf


@given(st.floats(0.1, 200.0), st.floats(0.5, 20.0), st.floats(0.06, 3.0), st.integers(1, 30))
def test_fewest_is_the_first_that_is_within(arrivals: float, service: float, limit: float, least: int) -> None:
    station = Station(arrivals, service, least=least, most=60)
    k = find_fewest(station, limit)
    assert least <= k <= 60
    if k < 60:
        assert estimate_response(station, k) <= limit
    if 1 / service <= limit:
        assert all(estimate_response(station, fewer) > limit for fewer in range(least, k))


def test_queueing_sizes_every_function_and_names_what_it_assumed() -> None:
    decision = create("queueing", Target(0.12)).decide(job(4, operators={"map": {"service_cv2": 0.5}}))
    assert decision.parallelism["map"] == find_fewest(Station(60.0, 10.0, 1.5, most=64), 0.12)
    assert codes(decision)[-1] == "assumed-variability"
    assert decision.reasons[-1].numbers == {"operators": "source, map", "assumed_cv2": 1.0}
    measured = {name: {"arrival_cv2": 1.0, "service_cv2": 1.0} for name in ("source", "map")}
    assert "assumed-variability" not in codes(create("queueing", Target(0.12)).decide(job(operators=measured)))


def test_queueing_gives_all_it_may_where_nothing_is_enough() -> None:
    decision = create("queueing", Target(0.05)).decide(job(4, operators={"map": {"maximum": 9}}))
    assert decision.parallelism["map"] == 9
    assert "out-of-reach" in codes(decision)


def test_queueing_without_demand_needs_the_minimum() -> None:
    idle = job(4, rate=0.0)
    assert create("queueing", TARGET).decide(idle).parallelism == {"source": 1, "map": 1}
    assert create("queueing-path", TARGET).decide(idle).parallelism["map"] == 3


def test_paths_of_a_diamond() -> None:
    diamond = Snapshot(
        job="d",
        window_seconds=1,
        p_max=4,
        source_rates={"s": 1.0},
        operators={
            "s": OperatorMetrics(parallelism=1),
            "a": OperatorMetrics(parallelism=1, upstream=("s",)),
            "b": OperatorMetrics(parallelism=1, upstream=("s",)),
            "t": OperatorMetrics(parallelism=1, upstream=("a", "b")),
        },
    )
    assert list_paths(diamond.topology) == [("s", "a", "t"), ("s", "b", "t")]


def test_a_job_of_very_many_paths_is_refused_and_a_long_chain_is_not() -> None:
    assert len(list_paths(Topology.chain(*(f"op{i}" for i in range(2000))))[0]) == 2000
    layers: dict[str, OperatorMetrics] = {"s": OperatorMetrics(parallelism=1)}
    above: tuple[str, ...] = ("s",)
    for layer in range(14):
        names = (f"a{layer}", f"b{layer}")
        layers |= {name: OperatorMetrics(parallelism=1, upstream=above) for name in names}
        above = names
    wide = Snapshot(job="w", window_seconds=1, p_max=4, source_rates={"s": 1.0}, operators=layers)
    with pytest.raises(InputError, match="more than 10,000"):
        list_paths(wide.topology)


def branches(fast: int, slow: int) -> Snapshot:
    def measured(k: int, capacity: float, upstream: tuple[str, ...]) -> OperatorMetrics:
        records = capacity * 60 * k
        return OperatorMetrics(records, records, 60.0 * k, parallelism=k, upstream=upstream)

    operators = {
        "source": measured(2, 1000.0, ()),
        "fast": measured(fast, 100.0, ("source",)),
        "slow": measured(slow, 10.0, ("source",)),
    }
    return Snapshot(job="b", window_seconds=60, p_max=20, source_rates={"source": 60.0}, operators=operators)


def test_queueing_by_path_moves_one_instance_on_each_path() -> None:
    policy = create("queueing-path", Target(0.12))
    decision = policy.decide(branches(fast=5, slow=6))
    assert decision.parallelism == {"source": 2, "fast": 5, "slow": 7}  # the saturated path needs its source
    assert codes(decision)[:4] == ["kept", "kept", "slowest", "latency"]
    assert "6 → 7" in texts(decision)[2]
    assert "saturated" in texts(decision)[2]
    assert "saturated" in texts(decision)[3]
    settled = policy.decide(branches(fast=1, slow=9))
    assert settled.parallelism["slow"] == 9


def test_queueing_by_path_gives_nothing_back_that_another_path_needs() -> None:
    """The source, on the quick path, could do with one instance; the slow path through it could not."""
    slow = Station(60.0, 10.0)
    both = estimate_response(slow, 8) + estimate_response(Station(60.0, 1000.0), 2)
    decision = create("queueing-path", Target(both * (1 + 1e-6))).decide(branches(fast=1, slow=8))
    assert decision.parallelism == {"source": 2, "fast": 1, "slow": 8}
    roomy = create("queueing-path", Target(both * 1.5)).decide(branches(fast=1, slow=8))
    assert roomy.parallelism["source"] == 1
    assert codes(roomy)[0] == "fastest"
    assert roomy.reasons[3].numbers["predicted_seconds"] == pytest.approx(both)


@pytest.mark.parametrize("name", ["ds2", "drs-true", "queueing", "queueing-path"])
def test_every_operator_is_explained_the_kept_source_too(name: str) -> None:
    blind_source = chain_snapshot({"source": 3, "map": 4}, {"map": 10.0}, 60.0)
    decision = create(name, TARGET).decide(blind_source)
    assert codes(decision)[0] == "source-kept"
    assert decision.reasons[0].numbers["wanted"] == 3
    assert {reason.numbers.get("operator") for reason in decision.reasons} >= {"source", "map"}


def test_a_scripted_policy_is_a_policy() -> None:
    policy: Policy = ScriptedPolicy([{"map": 3}, None])
    assert policy.decide(job()).parallelism["map"] == 3
    assert policy.decide(job()).hold
