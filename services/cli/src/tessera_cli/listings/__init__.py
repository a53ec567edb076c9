"""`tessera nodes`, `cards` and `pods`: lists as kubectl prints them."""
