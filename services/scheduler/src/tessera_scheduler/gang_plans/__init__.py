"""Plans about gangs: those that could not start as a whole are given up."""
