"""Keeping a run: a durable journal of an agent's steps in SQL."""
