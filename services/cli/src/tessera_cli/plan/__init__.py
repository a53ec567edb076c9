"""`tessera plan`: plans of the rebalancer, and decisions about them."""
