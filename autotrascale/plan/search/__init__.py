"""The search above the floor: score, surrogate, acquisition, studies and the benefit models that they leave."""
