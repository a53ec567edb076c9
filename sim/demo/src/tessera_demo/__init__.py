"""`tessera demo`: everything on one machine, as real processes that cannot see the difference.

A control plane and nodes in small (`tessera_embedded`), a real nats-server, the services, simulated
cards, and pods as local processes under the real hook library. The demo asks of all of them what a
user would, and ends well only when each promise was seen to be kept.
"""
