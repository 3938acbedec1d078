"""The command line: `smolagents-memory`."""

from smolagents_memory.cli.app import main


__all__ = ["main"]
