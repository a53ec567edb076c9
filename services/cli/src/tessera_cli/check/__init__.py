"""`tessera check`: whether a cluster is ready for Tessera, and whether an installation works."""
