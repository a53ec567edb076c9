"""`tessera top`: the cluster's cards as they fill up and are used, full-screen or once."""
