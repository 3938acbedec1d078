"""Where memories live: one contract (`MemoryStore`) over RAM, SQLite, Postgres, Redis and Chroma."""
