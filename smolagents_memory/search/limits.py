"""From where on things are done another way."""

from __future__ import annotations


OWN_COLLECTION = 10_000  # memories from which on a named scope gets a Chroma collection of its own
