"""Worked examples that can be imported and are run by the tests."""

from smolagents_memory.examples.customer_support import CustomerSupportMemory, SupportCase


__all__ = ["CustomerSupportMemory", "SupportCase"]
