"""Entry points only: the command line, the HTTP API, the dashboard, settings and wiring."""
