"""Policies: one protocol (`base.py`), one file for each policy, found by name (`registry.py`)."""
