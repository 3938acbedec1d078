"""Ready-made step callbacks: each shapes a step, or the memory before it, as it happens, and never breaks a run."""
