"""Texts and plot data for people, used by the terminal, the pages and notebooks alike."""
