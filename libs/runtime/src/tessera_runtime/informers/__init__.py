"""How several services follow the cluster: handlers for grants' keys, pods, nodes' cards and
namespaces' labels; and whether a kind is installed."""
