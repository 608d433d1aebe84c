"""Settings of all tests: asserts of contract suites are explained, and no generated case has a deadline."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite(
    "autotrascale.testing.engine_contract",
    "autotrascale.testing.live_contract",
    "autotrascale.testing.metric_store_contract",
)

_USUAL = settings.get_profile(settings.get_current_profile_name())
settings.register_profile("untimed", _USUAL, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
