"""Idle cores that are lent among the containers of a card."""
