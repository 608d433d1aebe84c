"""The benchmark of warm starts: its jobs, its searches, and its figures are what they are said to be."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotrascale.plan.search.ask_tell import AskTellStudy
from autotrascale.plan.sizing.sizing import Sizing
from benchmarks.quality import transfer_bench
from benchmarks.quality.transfer.figures import POOLED, compute_figures
from benchmarks.quality.transfer.record import read_rows, write_rows
from benchmarks.quality.transfer.tables import format_markdown
from benchmarks.workloads import descent, transfer_jobs, transfer_searches
from benchmarks.workloads.problems import is_held_out, sustains
from benchmarks.workloads.transfer_measures import (
    LEAN_ORACLE,
    LIBRARY,
    ORACLE,
    ORACLE_WITH_MEMORY,
    OURS,
    PARTS,
    WRONG,
    Row,
    measure_job,
)

TOTAL = transfer_jobs.choose_jobs(("total",), 1, None)[0]


@cache
def rows() -> tuple[Row, ...]:
    return tuple(measure_job(TOTAL, 0, (OURS, ORACLE, "random"), PARTS))


class TestJobs:
    def test_those_seen_and_those_kept_apart(self) -> None:
        seen, apart = (
            transfer_jobs.choose_jobs(transfer_jobs.FAMILIES, 3, None),
            transfer_jobs.choose_jobs(transfer_jobs.FAMILIES, 3, 5),
        )
        assert len(seen) == len(apart) == 3 * len(transfer_jobs.FAMILIES)
        assert not any(is_held_out(*job) for job in seen)
        assert all(is_held_out(*job) for job in apart)
        assert (
            transfer_jobs.choose_jobs(transfer_jobs.FAMILIES, 3, 5)
            == apart
            != transfer_jobs.choose_jobs(transfer_jobs.FAMILIES, 3, 6)
        )

    def test_jobs_fitted_to_recorded_trials_are_sound(self) -> None:
        for number in range(3):
            problem = transfer_jobs.draw_problem(transfer_jobs.RECORDED, number)
            case = problem.case
            assert problem == transfer_jobs.draw_problem(transfer_jobs.RECORDED, number)
            assert [*case.topology] == ["source", "flatmap", "count", "sink"]
            assert case.p_max == case.job.batch.slots == transfer_jobs.SLOTS
            assert sustains(case.compiled, np.array(case.floor))
            assert case.accepts(descent.find_least_latency(case, case.resource_limit).parallelism)[0]

    def test_another_job_is_of_another_family_and_the_same_half(self) -> None:
        for family, number in (("total", 0), ("wide", 1), (transfer_jobs.RECORDED, 2)):
            other = transfer_jobs.draw_other_family(family, number, 4)
            assert other.case.family != family
            assert len(other.case.floor) == 4
            assert is_held_out(other.case.family, other.case.seed) == is_held_out(family, number)


class TestSearches:
    def test_a_study_runs_as_a_tuning_run_does(self) -> None:
        """Every window counts, second ones too, and it ends where the study does."""
        case = transfer_jobs.draw_problem(*TOTAL).case
        study, told = transfer_searches.make_study(case, 0, sizing=transfer_searches.measure_floor(case, 0)), 0
        read = transfer_searches.make_reader(case, case.windows(0))

        def counted(k: tuple[int, ...]) -> tuple[float, Sizing | None]:
            nonlocal told
            told += 1
            return read(k)

        stop, tried, ended = transfer_searches.run_tuning(study, counted)
        assert told == ended >= stop >= tried or (math.isinf(stop) and math.isinf(tried))
        assert sum(run.windows for run in study.runs) == ended
        assert study.finished == math.isfinite(stop)

    def test_what_knows_the_answer_is_right_and_soon_done(self) -> None:
        row = next(row for row in rows() if row["method"] == ORACLE)
        assert row["stop"] <= 10
        assert not row["missed"]

    def test_a_study_never_accepting_stops_at_the_budget(self) -> None:
        case = transfer_jobs.draw_problem(*TOTAL).case
        study = AskTellStudy(case.floor, case.p_max, case.latency_target)
        stop, _, ended = transfer_searches.run_tuning(study, lambda _: (10 * case.latency_target, None))
        assert math.isinf(stop)
        assert ended <= transfer_searches.BUDGET

    def test_the_leanest_that_can_be_shown_in_time_is_no_worse_than_the_fastest_and_meets_the_target(self) -> None:
        case = transfer_jobs.draw_problem(*TOTAL).case
        judge = transfer_searches.CaseTruth(case)
        fastest = transfer_searches.trace_oracle(judge, case.windows(0).measure)
        lean = transfer_searches.trace_lean_oracle(judge, case.windows(0).measure)
        assert lean.regret_at_stop <= fastest.regret_at_stop + 1e-9
        assert not lean.missed

    def test_the_sooner_readings_are_to_show_it_the_further_within_the_target_it_must_be(self) -> None:
        needed = [transfer_searches.needed_margin(soon, most) for soon, most in ((1, 1), (1, 5), (2, 5), (5, 20))]
        assert needed == sorted(needed, reverse=True)
        assert needed[1] == pytest.approx(1.881, abs=0.03)  # at once in every second series: the quantile of 97 %

    def test_earlier_readings_of_one_who_knows_the_surface_are_as_good_as_its_own(self) -> None:
        case = transfer_jobs.draw_problem(*TOTAL).case
        study = transfer_searches.make_study(case, 0, sizing=transfer_searches.measure_floor(case, 0))
        for k in (case.floor, tuple(x + 2 for x in case.floor), case.floor):
            study.tell(k, latency=1.1 * float(case.latency([k])[0]))
        errors = transfer_searches.reading_errors(study, case)
        assert errors == pytest.approx([math.log(1.1)] * 3)
        exact = [0.0] * 50
        assert (
            transfer_searches.trace_oracle(transfer_searches.CaseTruth(case), case.windows(0).measure, exact).stop == 1
        )


class TestRows:
    def test_the_same_job_and_seed_give_the_same_rows(self) -> None:
        again = measure_job(TOTAL, 0, (OURS,), ("cold",))
        assert again == [row for row in rows() if row["part"] == "cold" and row["method"] == OURS]

    def test_every_start_has_its_cold_one_at_the_same_rate(self) -> None:
        changed = [row for row in rows() if row["part"] == "changed"]
        rates = {
            start: [row["factor"] for row in changed if row["start"] == start]
            for start in ("cold", "warm", *LIBRARY, *WRONG)
        }
        assert rates["cold"]
        assert len({tuple(each) for each in rates.values()}) == 1

    def test_regret_is_never_below_zero(self) -> None:
        found = [
            row[name] for row in rows() for name in ("regret_at_stop", "regret_later") if row.get(name) is not None
        ]
        assert found
        assert min(found) >= -1e-9

    def test_the_law_is_looked_at_after_the_stop_and_later(self) -> None:
        first = next(row for row in rows() if row["part"] == "cold" and row["method"] == OURS)
        law = [row for row in rows() if row["part"] == "law"]
        assert len(law) == (2 if math.isfinite(first["stop"]) else 0)


class TestFigures:
    def test_they_are_by_family_and_pooled_and_may_be_written(self) -> None:
        found = compute_figures(rows())
        assert set(found["cold"]) == {OURS, ORACLE, "random"}
        assert [*found["cold"][OURS]] == ["total", POOLED]
        assert set(found["bounds"]) == {LEAN_ORACLE, ORACLE, ORACLE_WITH_MEMORY}
        json.dumps(found, allow_nan=False)
        table = format_markdown(found)
        assert "| total |" in table
        assert "| all |" in table

    def test_who_never_stopped_counts_as_never(self) -> None:
        found = compute_figures([cold(stop) for stop in (1, 2, 3, math.inf)])["cold"][OURS][POOLED]
        assert found["runs_to_stop_median"] == 2.5
        assert found["runs_to_stop_90"] == "never"
        assert found["stopped_share"] == 0.75

    def test_pairs_are_of_one_job_rate_and_seed(self) -> None:
        warm = [changed("warm", factor, stop) for factor, stop in ((0.5, 1), (2.0, 4))]
        plain = [changed("cold", factor, stop) for factor, stop in ((2.0, 2), (0.5, 3))]
        found = compute_figures([*warm, *plain])["warm"][OURS]["f"]
        assert found["pairs"] == 2
        assert found["within_cold_share"] == 0.5
        assert found["first_run_accepted_share"] == 0.5
        assert found["cold_first_run_accepted_share"] == 0

    def test_rows_come_back_as_they_were_written(self, tmp_path: Path) -> None:
        path, never = tmp_path / "out" / "rows.jsonl", cold(math.inf)
        assert [*write_rows(path, {"apart": 3}, [*rows(), never])] == [*rows(), never]
        assert read_rows(path) == ({"apart": 3}, [*rows(), never])
        whole = path.read_text()
        path.write_text(whole[:-5])
        assert read_rows(path)[1] == [*rows()], "the line that was cut off is left out"

    def test_what_is_asked_for_must_exist(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
        monkeypatch.setattr("sys.argv", ["transfer_bench", "--families", "total,nonsense"])
        with pytest.raises(SystemExit):
            transfer_bench.main()
        assert "nonsense" in capsys.readouterr().err


def cold(stop: float) -> dict[str, Any]:
    return {
        "part": "cold",
        "method": OURS,
        "family": "f",
        "number": 1,
        "seed": 0,
        "stop": stop,
        "tried": stop,
        "ended": 20,
        "reason": "budget",
        "missed": False,
        "regret_at_stop": 0.1,
        "regret_later": 0.1,
    }


def changed(start: str, factor: float, stop: float) -> dict[str, Any]:
    return cold(stop) | {"part": "changed", "start": start, "factor": factor}
