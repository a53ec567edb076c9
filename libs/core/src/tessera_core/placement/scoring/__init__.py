"""Formulas that say which node and which card is better. Pure numbers, no choice."""
