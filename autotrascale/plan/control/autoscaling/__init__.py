"""The policy of the control loop: what it remembers of a job, what it predicts, and what it plans."""
