"""State migration in bins, as in Megaphone: plans of moves, and the latency, duration and memory of each plan."""
