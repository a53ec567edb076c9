"""What an agent speaks on its node: NRI to the container runtime."""
