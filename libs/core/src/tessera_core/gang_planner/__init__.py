"""Plans whole gangs on a cluster as it stands, for `tessera place`."""
