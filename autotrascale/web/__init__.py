"""The server: the HTTP API under /v1, and the pages for people."""
