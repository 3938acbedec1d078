"""What an agent can call."""
