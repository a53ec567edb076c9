"""The scheduler: admission webhook, kube-scheduler's extender, and the ledger behind both."""
