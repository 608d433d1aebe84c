"""Marks: how a job says in its plan which operator is which, and what Spark then reports of each batch.

A mark is an observation (`DataFrame.observe`) called `op:NAME`. It counts what the operator gives; a source's mark also
has the first, the mean and the last arrival time, in microseconds of Unix time.
"""

MARK = "op:"
COUNT, FIRST, MEAN, LAST = "n", "first", "mean", "last"
