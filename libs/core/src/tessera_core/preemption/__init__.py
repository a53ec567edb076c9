"""Which pods would have to go so that a pod or a gang fits, and what that would cost."""
