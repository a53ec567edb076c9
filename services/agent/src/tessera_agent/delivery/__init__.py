"""How the devices of a container that holds shares get into it."""
