"""The tables of the search benchmark in Markdown: by family, with the pooled figures in the last row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.quality.transfer.figures import POOLED, Figures
from benchmarks.quality.transfer.goals import compare_with_goals
from benchmarks.workloads.transfer_measures import AGAIN, LEAN_ORACLE, ORACLE, ORACLE_WITH_MEMORY, OTHERS, OURS, PAPER

Columns = Sequence[tuple[str, tuple[str, ...]]]  # a title and its figures: a median, with its tail in brackets

COLD: Columns = (
    ("jobs", ("jobs",)),
    ("runs to stop, median (90 %)", ("runs_to_stop_median", "runs_to_stop_90")),
    ("configurations to stop", ("tried_median", "tried_90")),
    ("runs with second looks", ("runs_in_all_median", "runs_in_all_90")),
    ("stopped", ("stopped_share",)),
    ("wrongly gave up", ("gave_up_share",)),
    ("at the first run", ("first_run_accepted_share",)),
    ("accepted that truly miss", ("missed_share",)),
    ("regret at the stop", ("regret_at_stop_median", "regret_at_stop_90")),
    ("regret after 10 runs", ("regret_after_10_median", "regret_after_10_90")),
)
PAIRED: Columns = (
    ("pairs", ("pairs",)),
    ("first run accepted", ("first_run_accepted_share",)),
    ("cold", ("cold_first_run_accepted_share",)),
    ("first configuration accepted", ("first_tried_accepted_share",)),
    ("cold", ("cold_first_tried_accepted_share",)),
    ("runs to stop, median (90 %)", ("runs_to_stop_median", "runs_to_stop_90")),
    ("cold", ("cold_runs_to_stop_median", "cold_runs_to_stop_90")),
    ("at most as many as cold", ("within_cold_share",)),
    ("at most one more", ("within_cold_and_one_share",)),
    ("regret at the stop", ("regret_at_stop_median",)),
    ("cold", ("cold_regret_at_stop_median",)),
    ("accepted that truly miss", ("missed_share",)),
)
LAW: Columns = (
    ("models", ("studies",)),
    ("first asks for the accepted configuration", ("first_asks_for_what_was_accepted_share",)),
    ("accepts at its first run", ("accepts_at_first_run_share",)),
    ("the first study, going on, accepts", ("first_study_going_on_accepts_share",)),
    ("the two agree", ("agree_share",)),
)
BOUND: Columns = (
    ("searches", ("searches",)),
    ("first run accepted", ("first_run_accepted_share",)),
    ("runs to stop, median (90 %)", ("runs_to_stop_median", "runs_to_stop_90")),
    ("accepted that truly miss", ("missed_share",)),
    ("regret at the stop", ("regret_at_stop_median", "regret_at_stop_90")),
)
NAMES = {PAPER: "Algorithm 1, and 2 from its model", OURS: "AuTraScale"}
LIBRARY_TITLES = {OTHERS: "models of all other rates", AGAIN: "models of all rates, including this rate"}
WRONG_TITLES = {"other": "another job", "shuffled": "this job with shuffled operators"}

BOUND_TITLES = {
    LEAN_ORACLE: "the best score that readings can show to meet the target in time, cold",
    ORACLE: "the fastest point within the resource limit, at each rate, from readings of that rate",
    ORACLE_WITH_MEMORY: "the fastest point within the resource limit, at each rate, with earlier readings",
}


def format_markdown(figures: Figures) -> str:
    """Return the tables of all parts that have figures."""
    sections = [_head(figures), _goals(figures)]
    if cold := figures["cold"]:
        sections.append(format_table("Cold, all families", "search", {_name(m): cold[m][POOLED] for m in cold}, COLD))
        sections += [format_table(f"Cold, by family: {_name(m)}", "family", cold[m], COLD) for m in cold if m == OURS]
    for method, by_family in figures["warm"].items():
        sections.append(format_table(f"From a model of the same job: {_name(method)}", "family", by_family, PAIRED))
    if by_rate := figures["warm_by_rate"]:
        sections.append(format_table("From a model of the same job, by rate", "times its rate", by_rate, PAIRED))
    for start, by_rate in figures["library"].items():
        sections.append(format_table(f"From {LIBRARY_TITLES[start]}, by rate", "times its rate", by_rate, PAIRED))
    for start, by_family in figures["wrong"].items():
        sections.append(format_table(f"From a model of {WRONG_TITLES[start]}", "family", by_family, PAIRED))
    if figures["informed"]:
        sections.append(format_table("Oracle, at the same rates", "family", figures["informed"], PAIRED))
    for method, by_family in figures["bounds"].items():
        sections.append(format_table(f"Oracle: {BOUND_TITLES[method]}", "family", by_family, BOUND))
    if figures["law"]:
        sections.append(format_table("From a model of the same job, rate and target", "family", figures["law"], LAW))
    return "\n\n".join(filter(None, sections)) + "\n"


def _head(figures: Figures) -> str:
    if figures.get("apart") is None:
        return "**Simulated** jobs of development."
    return f"**Simulated** held-out jobs, drawn by seed {figures['apart']}."


def _goals(figures: Figures) -> str:
    lines = ["**Goals**", "", "| figure | goal | measured | | oracle |", "|---" * 5 + "|"]
    for each in compare_with_goals(figures):
        name, missed = each.name.replace("_", " "), "" if each.met else "missed"
        lines.append(f"| {name} | {each.goal} | {_text(each.measured)} | {missed} | {_text(each.bound)} |")
    return "\n".join(lines) if len(lines) > 4 else ""


def format_table(title: str, first: str, rows: Mapping[str, Figures], columns: Columns) -> str:
    """Return one table: a row for each entry of `rows`."""
    lines = [f"**{title}**", "", f"| {first} | {' | '.join(title for title, _ in columns)} |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for name, figures in rows.items():
        cells = [_cell([(key, figures.get(key)) for key in keys]) for _, keys in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(figures: Sequence[tuple[str, Any]]) -> str:
    texts = [
        f"{100 * value:.0f} %" if key.endswith("share") and value is not None else _text(value)
        for key, value in figures
    ]
    return texts[0] if len(texts) == 1 else f"{texts[0]} ({texts[1]})"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _name(method: str) -> str:
    return NAMES.get(method, method)
