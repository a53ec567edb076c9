"""The agent: one vendor's cards on one node."""
