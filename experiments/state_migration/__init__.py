"""State migration."""
