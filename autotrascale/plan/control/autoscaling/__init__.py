"""AuTraScale's policy for a running job: what it remembers, predicts and plans."""
