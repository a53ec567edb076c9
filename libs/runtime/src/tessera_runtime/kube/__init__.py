"""Kubernetes as bytes: requests, lists page by page, watches. The objects are msgspec Structs."""
