"""Code that runs in a Spark driver: hooks, query specs, checkpoints, rescales, and the agent."""
