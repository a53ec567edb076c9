"""HTTP servers of the services, their connections and certificates."""
