"""What ships for tests: a deterministic model, a strict comparison of steps and values, and what stores must do.

The suite for stores is in `smolagents_memory.testing.conformance`, thousands of memories in `.filling`;
both need pytest.
"""

from smolagents_memory.testing.same import explain_difference, same
from smolagents_memory.testing.scripted import ModelCall, ScriptedModel, call, code


__all__ = ["ModelCall", "ScriptedModel", "call", "code", "explain_difference", "same"]
