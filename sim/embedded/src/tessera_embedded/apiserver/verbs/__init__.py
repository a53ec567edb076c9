"""What may be done to objects: read, write, delete, patch, and what only pods know."""
