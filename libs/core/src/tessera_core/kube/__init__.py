"""Kubernetes' own rules, as far as placement needs them."""
