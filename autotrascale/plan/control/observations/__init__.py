"""Checks of an observation: can it be trusted, and is parallelism the cause of its numbers?"""
