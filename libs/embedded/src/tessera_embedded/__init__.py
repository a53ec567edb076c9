"""A control plane and a node in small, which speak the real protocols: for the demo and for tests."""
