"""Cards that the container runtime gives to containers: it calls Tessera for each that it
creates."""
