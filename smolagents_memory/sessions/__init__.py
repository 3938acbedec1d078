"""Keep a run."""
