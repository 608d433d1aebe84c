"""What runs in the host process: one warm Spark session, and the query in it."""
