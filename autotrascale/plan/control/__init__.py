"""Decisions for a job that runs: the manager and its guards, the autoscaling policy, the loop's state."""
