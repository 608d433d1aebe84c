"""Rescaling of a stateful query: its costs, the choice of a mode, catching up, and interrupting an open batch."""
