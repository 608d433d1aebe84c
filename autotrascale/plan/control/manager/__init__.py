"""When to act on what a policy says, and within which bounds: DS2's scaling manager and the knobs around it."""
