"""A control plane and a node in small that speak the real protocols: for the demo and tests."""
