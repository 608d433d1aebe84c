"""Properties are checked on sixty examples each, without a deadline: the machine may be busy with other things."""

from hypothesis import settings

settings.register_profile("plan", max_examples=60, deadline=None)
settings.load_profile("plan")
