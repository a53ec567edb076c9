"""What a pod's grant may be, and what it becomes."""
