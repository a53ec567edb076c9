"""Cards that a gang in line will get, and who may use them until then."""
