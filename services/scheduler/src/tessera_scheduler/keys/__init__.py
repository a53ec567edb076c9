"""The keys that grants are signed with."""
