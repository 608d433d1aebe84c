"""The Nexmark queries of the DS2 and AuTraScale papers, for Spark Structured Streaming.

| query                      | sources           | operators                                     |
|----------------------------|-------------------|-----------------------------------------------|
| Q1  currency conversion    | bids              | a stateless map                               |
| Q2  selection              | bids              | a stateless filter                            |
| Q3  local item suggestion  | persons, auctions | an incremental join whose state only grows    |
| Q5  hot items              | bids              | sliding windows: counts, then their maximum   |
| Q8  monitor new users      | persons, auctions | a join within tumbling windows                |
| Q11 user sessions          | bids              | session windows                               |

Name a query in a job file as `job: examples.jobs.nexmark:Q5`; its fields are its options. All queries use the same
`Market`. Each stream has a source of its own, as in the DS2 paper. Keep the rates of the sources in the proportion of
the benchmark, 1 person : 3 auctions : 46 bids. Otherwise one stream refers to persons and auctions that the other
stream has not sent yet.

Event time is arrival time, which the load generator stamps. Records come in that order, so watermarks need no delay.
"""

from examples.jobs.nexmark.market import Market
from examples.jobs.nexmark.q1 import Q1
from examples.jobs.nexmark.q2 import Q2
from examples.jobs.nexmark.q3 import Q3
from examples.jobs.nexmark.q5 import Q5
from examples.jobs.nexmark.q8 import Q8
from examples.jobs.nexmark.q11 import Q11

__all__ = ["Q1", "Q2", "Q3", "Q5", "Q8", "Q11", "Market"]
