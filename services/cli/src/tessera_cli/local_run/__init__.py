"""One machine without Kubernetes: `tessera run`, `ps` and `share`."""
