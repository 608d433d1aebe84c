"""Checks of `autotrascale doctor`: each reports what it saw, and a remedy for a problem."""
