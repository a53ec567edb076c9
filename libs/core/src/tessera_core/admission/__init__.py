"""From a pod as it is written to a valid request in canonical units, and to the pod's changes."""
