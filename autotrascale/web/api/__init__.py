"""The verbs of the command line over HTTP: FastAPI's application, and what it answers from."""
