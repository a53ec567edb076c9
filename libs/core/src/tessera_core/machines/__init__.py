"""State machines: each module has one, nothing but phases, events and what may follow what.
`state_machine` is what they have in common."""
