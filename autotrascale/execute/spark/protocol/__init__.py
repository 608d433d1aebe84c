"""Protocol."""
