"""What an agent speaks on its node: NRI to the container runtime, device plugins and PodResources
to kubelet."""
