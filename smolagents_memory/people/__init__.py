"""A person: all that is kept of one, listed, exported, erased."""
