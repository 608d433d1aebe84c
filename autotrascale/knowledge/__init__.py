"""Stored knowledge: tuning runs and benefit models in MLflow, and the journal of control loops."""
