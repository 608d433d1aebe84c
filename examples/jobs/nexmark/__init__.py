"""Nexmark, the queries that the DS2 and AuTraScale papers run, for Spark Structured Streaming.

| query                      | sources           | what it asks of a stream processor            |
|----------------------------|-------------------|-----------------------------------------------|
| Q1  currency conversion    | bids              | a stateless map                               |
| Q2  selection              | bids              | a stateless filter                            |
| Q3  local item suggestion  | persons, auctions | an incremental join whose state only grows    |
| Q5  hot items              | bids              | sliding windows: counts, then their maximum   |
| Q8  monitor new users      | persons, auctions | a join within tumbling windows                |
| Q11 user sessions          | bids              | session windows                               |

Use one as `job: examples.jobs.nexmark:Q5`; its fields are its options. All draw on the same `Market`. The streams
come from sources of their own, as in the DS2 paper. One person to three auctions to 46 bids is the benchmark's
proportion: keep the rates of a query's sources in it, or one stream names people and auctions whom the other is late
to bring.

Event time is arrival time, which the load generator stamps. Records come in its order, so watermarks wait for nothing.
"""

from examples.jobs.nexmark.market import Market
from examples.jobs.nexmark.q1 import Q1
from examples.jobs.nexmark.q2 import Q2
from examples.jobs.nexmark.q3 import Q3
from examples.jobs.nexmark.q5 import Q5
from examples.jobs.nexmark.q8 import Q8
from examples.jobs.nexmark.q11 import Q11

__all__ = ["Q1", "Q2", "Q3", "Q5", "Q8", "Q11", "Market"]
