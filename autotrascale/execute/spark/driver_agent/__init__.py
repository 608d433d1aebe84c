"""Driver agent."""
