"""Long-term memory: what is worth knowing, brought back when it matters."""
