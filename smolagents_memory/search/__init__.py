"""Finding memories: by words and by meaning."""
