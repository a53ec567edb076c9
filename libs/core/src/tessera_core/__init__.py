"""The verbs of Tessera: pure, synchronous functions over the nouns of `tessera_schema`.

Nothing here reads a file, a clock or a socket: time and the outside come in as arguments.
"""
