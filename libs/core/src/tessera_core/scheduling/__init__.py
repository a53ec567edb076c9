"""The calls of kube-scheduler's extender, from bytes to bytes."""
