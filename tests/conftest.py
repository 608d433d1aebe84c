"""No test is timed: on a busy machine a generated case may take any time, which says nothing about the program."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_USUAL = settings.get_profile(settings.get_current_profile_name())
settings.register_profile("untimed", _USUAL, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
