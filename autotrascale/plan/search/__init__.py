"""The search above the floor: score, surrogate, acquisition, studies and benefit models."""
