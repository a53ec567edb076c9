"""Doubles of the programs that vendors put on nodes: one module each, which offers `TOOLKIT`."""
