"""Starts whole gangs: which waits, which holds cards, and what each member is answered."""
