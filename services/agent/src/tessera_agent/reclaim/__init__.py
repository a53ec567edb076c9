"""Memory that is taken back from best-effort containers for an owner that waits for it."""
