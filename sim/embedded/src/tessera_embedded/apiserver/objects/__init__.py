"""What is kept: kinds of objects, their metadata and names, selectors, the store and its file."""
