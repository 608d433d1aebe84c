"""Executors of clusters: settings, requests and releases."""
