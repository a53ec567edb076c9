"""Files that are shared with a hook library in containers: layouts, and reading without trust."""
