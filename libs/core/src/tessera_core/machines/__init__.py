"""State machines: one noun each, nothing but phases, events and what may follow what."""
