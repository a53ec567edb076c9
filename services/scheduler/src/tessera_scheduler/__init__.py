"""The scheduler: admission webhook, kube-scheduler's extender, and the books behind both."""
