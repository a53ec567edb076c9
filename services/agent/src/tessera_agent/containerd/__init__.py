"""Writes containerd's drop-in on a node and restarts it, or takes the drop-in out again.

It is a process of its own (`python -m tessera_agent.containerd`), with rights that no agent has.
"""
