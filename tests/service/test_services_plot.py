"""The correlation of a backlog with a service, among the plots of a loop: on its page, and by `explain --plots`."""

from __future__ import annotations

import pytest

from autotrascale.domain.target import Target
from autotrascale.plan.control.looks.signals import Services
from autotrascale.plan.control.loop_state import State
from autotrascale.service.plots import OF_A_LOOP, of_loop, titles
from autotrascale.views.plots import services
from autotrascale.views.plots.job import Kept


@pytest.mark.parametrize("looks", [0, 3, 30])
def test_a_loop_that_knows_services_draws_what_its_backlog_has_to_do_with_them(looks: int) -> None:
    known = Services()
    for look in range(looks):
        known = known.adding(float(look % 7), {"prices": 0.1 * (look % 7)})
    state = State(services=known)
    drawn = [(plot.name, plot.title) for plot in of_loop(Kept(Target(1.0), True), state, [], None)]
    assert tuple(drawn) == titles(state)
    assert titles(state) == (*OF_A_LOOP, (services.NAME, services.TITLE)) if looks else OF_A_LOOP
