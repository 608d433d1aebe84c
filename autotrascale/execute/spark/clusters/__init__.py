"""Executors on local, standalone, YARN and Kubernetes clusters: what can be requested, and how executors are released."""
