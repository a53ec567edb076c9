"""What a container of the node gets: files, limits, variables and terms."""
