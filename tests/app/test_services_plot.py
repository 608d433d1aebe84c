"""The correlation of a backlog with a service, among the plots of a loop: on its page, and by `explain --plots`."""

from __future__ import annotations

import pytest

from autotrascale.app.plot_sets import LOOP_PLOTS, list_loop_plots, plot_loop
from autotrascale.domain.target import Target
from autotrascale.plan.control.loop_state import State
from autotrascale.plan.control.observations.slow_services import ServiceLatencyHistory
from autotrascale.views.plots import service_lag
from autotrascale.views.plots.loop_history import PlottedLoop


@pytest.mark.parametrize("looks", [0, 3, 30])
def test_a_loop_that_knows_services_draws_what_its_backlog_has_to_do_with_them(looks: int) -> None:
    known = ServiceLatencyHistory()
    for look in range(looks):
        known = known.add(float(look % 7), {"prices": 0.1 * (look % 7)})
    state = State(services=known)
    drawn = [(plot.name, plot.title) for plot in plot_loop(PlottedLoop(Target(1.0), True), state, [], None)]
    assert tuple(drawn) == list_loop_plots(state)
    assert list_loop_plots(state) == (*LOOP_PLOTS, service_lag.SERVICE_LAG) if looks else LOOP_PLOTS
