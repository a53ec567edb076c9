"""The nouns that every part of Tessera shares: frozen msgspec Structs and nothing that acts.

Wire types only grow: a new field has a default, a renamed subject is a new version.
"""
