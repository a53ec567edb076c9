"""Which cards a request gets, among those that fit: one module per way of choosing.

Each offers `choose(view, eligible, request)`: `eligible` are the columns that passed the
predicates, in the order of the request's keys (best first); the answer is `request.count` of them
in the order of selection, or None when this way of choosing finds no set.
"""
