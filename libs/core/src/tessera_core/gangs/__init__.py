"""Gangs and queues: reading users' objects, and cards for all members of a gang or for none."""
