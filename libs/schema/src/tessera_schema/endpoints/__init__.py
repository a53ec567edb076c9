"""Bodies that kube-scheduler and the API server exchange with Tessera over HTTP."""
