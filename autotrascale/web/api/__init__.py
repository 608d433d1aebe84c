"""The HTTP API: the verbs of the command line as routes under /v1."""
