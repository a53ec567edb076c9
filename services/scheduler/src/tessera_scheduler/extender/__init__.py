"""The extender of kube-scheduler: its handlers, and waiting pods that are queued again."""
