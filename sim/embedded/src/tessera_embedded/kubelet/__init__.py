"""kubelet's side of the device plugin API, played for tests and the demo."""
