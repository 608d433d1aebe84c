"""Laws of plots in a terminal: nothing runs out of its frame, and higher values stand higher."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from autotrascale.views.plots.plot import Axis, AxisKind, Level, Plot, Series
from autotrascale.views.plots.terminal import draw_plot

WIDTH, HEIGHT = 40, 8
values = st.floats(-1e9, 1e9) | st.floats(0, 1) | st.integers(0, 100).map(float)
drawings = st.sampled_from(["line", "steps", "dashed steps", "points", "bars"])


@st.composite
def plots(draw: st.DrawFn) -> Plot:
    kind: AxisKind = draw(st.sampled_from(["number", "log", "time", "names"]))
    place = st.text(min_size=1, max_size=12) if kind == "names" else values.map(abs)
    series = []
    for n in range(draw(st.integers(1, 3))):
        x = tuple(draw(st.lists(place, max_size=8, unique=True).map(sorted)))
        y = tuple(draw(st.lists(st.none() | values, min_size=len(x), max_size=len(x))))
        sd = tuple(draw(st.lists(st.none() | values.map(abs), min_size=len(x), max_size=len(x))))
        sd = sd if draw(st.booleans()) else ()
        series.append(Series(f"series {n}", x, y, draw(drawings), sd=sd))
    levels = tuple(Level(value, "level") for value in draw(st.lists(values, max_size=2)))
    y_kind: AxisKind = draw(st.sampled_from(["number", "log"]))
    return Plot("plot", "A title", "It says so.", Axis("x", kind), Axis("y (s)", y_kind), tuple(series), levels)


@given(plots())
def test_a_plot_has_the_requested_size(plot: Plot) -> None:
    lines = draw_plot(plot, WIDTH, HEIGHT).plain.split("\n")
    framed = [line for line in lines if "│" in line]
    if not framed:
        assert lines == ["A title", "It says so."]
        return
    assert len(framed) == HEIGHT
    edge = framed[0].index("│")
    assert all(line.index("│") == edge and cell_len(line) == edge + 1 + WIDTH for line in framed)
    assert lines[0] == "A title"
    assert lines[-1] == "It says so."


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=20))
def test_higher_points_are_never_lower(ys: list[float]) -> None:
    plot = Plot(
        "p", "t", "s", Axis("x"), Axis("y"), (Series("a", tuple(map(float, range(len(ys)))), tuple(ys), "points"),)
    )
    rows = [line.partition("│")[2] for line in draw_plot(plot, WIDTH, HEIGHT).plain.split("\n") if "│" in line]
    marked = [(column, n) for n, row in enumerate(rows) for column, sign in enumerate(row) if sign == "●"]
    row_of = [
        dict(sorted(marked, reverse=True))[round(x * (2 * WIDTH - 1) / (len(ys) - 1)) // 2] for x in range(len(ys))
    ]
    by_height = [row for _, row in sorted(zip(ys, row_of, strict=True))]
    assert all(above >= below for above, below in pairwise(by_height)) or len(set(ys)) < len(ys)


def test_an_unavailable_plot_says_why() -> None:
    assert (
        draw_plot(Plot.unavailable("p", "A title", "Nothing was measured.")).plain == "A title\nNothing was measured."
    )
