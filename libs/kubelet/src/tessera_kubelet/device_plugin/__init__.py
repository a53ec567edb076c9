"""Kubelet's device plugin protocol, v1beta1: how kubelet learns which devices a node has, and asks
what a container that was given some of them is to get."""
