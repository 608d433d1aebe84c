"""AuTraScale's policy for a running job: its memory, predictions and plans."""
