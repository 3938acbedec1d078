"""One database for all: SQLite or Postgres, its tables, its envelope, its upkeep."""
