"""`tessera queue`: queues, what they use, and who waits in them."""
