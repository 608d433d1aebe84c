"""A query in hand: how a job builds it, what it was brought to, how it is rescaled."""
