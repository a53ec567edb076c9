"""Where a pod goes: nodes, cards, and the order in which they are tried."""
