"""What ships for tests: a deterministic model, and a strict comparison of steps and values."""

from smolagents_memory.testing.same import explain_difference, same
from smolagents_memory.testing.scripted import ModelCall, ScriptedModel, call, code


__all__ = ["ModelCall", "ScriptedModel", "call", "code", "explain_difference", "same"]
