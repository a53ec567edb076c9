"""Starts gangs whole: reads PodGroups, and has the bind calls of members wait for each other."""
