"""How close a node's cards are to each other, and which of them to take for it.

`tree` groups cards level by level, `evaluators` choose cards on it, `matrix` reads the table that
drivers' tools print, `text` draws the tree.
"""
