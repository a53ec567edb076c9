"""A container runtime's side of NRI, played for tests and the demo."""
