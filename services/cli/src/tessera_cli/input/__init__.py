"""Files that a user names: found, read as YAML or JSON, and split into objects."""
