"""Says which pods would have to go for one that waits."""
