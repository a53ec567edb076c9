"""What several services follow the cluster with: sinks for grants' keys, nodes' cards and
namespaces' labels; reading what pods hold; and whether a kind is installed."""
