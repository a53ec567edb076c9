"""Why a card, a node or a pod was refused: a closed set, with stable numbers and names.

The names of card reasons are HAMi's, which operators' dashboards already know. The numbers are
what decision records store; they never change and never get a second meaning.
"""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """A refusal. Up to 99: about one card; up to 199: about a node; above: about the pod."""

    CARD_NOT_HEALTH = 1
    CARD_CORDONED = 2
    CARD_TYPE_MISMATCH = 3
    MODE_NOT_FIT = 4
    NUMA_NOT_FIT = 5
    CARD_UUID_MISMATCH = 6
    CARD_TIME_SLICING_EXHAUSTED = 7
    EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT = 8
    RESOURCE_QUOTA_NOT_FIT = 9
    CARD_INSUFFICIENT_MEMORY = 10
    CARD_INSUFFICIENT_CORE = 11
    CARD_COMPUTE_UNITS_EXHAUSTED = 12
    CARD_NOT_FOUND_CUSTOM_FILTER_RULE = 13
    ALLOCATED_CARDS_INSUFFICIENT_REQUEST = 14
    TOPOLOGY_NOT_FIT = 15
    AGENT_SILENT = 16
    CARD_HIDDEN = 17
    CARD_RESERVED = 18

    NODE_UNREGISTERED = 101
    NODE_INSUFFICIENT_DEVICE = 102
    NODE_BLOCKED = 103
    NODE_NOT_SELECTED = 104
    NODE_TAINTED = 105
    NODE_UNSCHEDULABLE = 106
    NODE_INSUFFICIENT_RESOURCE = 107
    NODE_RESERVED = 108
    NODE_STARTING_EQUAL_POD = 109
    NODE_NOT_TRIED = 110
    NODE_HAS_NO_CARDS = 111

    INVALID_REQUEST = 201
    TWO_DIALECTS = 202
    ISOLATION_DEFEATED = 203
    UNKNOWN_CARD = 204
    GANG_WAITING = 205

    @property
    def wire(self) -> str:
        """The name that messages, metrics and `place` print, such as CardInsufficientMemory."""
        return "".join(part.capitalize() for part in self.name.split("_"))
