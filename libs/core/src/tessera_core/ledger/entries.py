"""What the ledger writes down of a pod, what it is given, and how it refuses."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tessera_core.fleet.charges import Charge, charges
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.quota.allowance import Uses
from tessera_schema.grants import Grant
from tessera_schema.reasons import Reason


class LedgerEntry(Struct, kw_only=True, gc=False):
    """One pod in the ledger."""

    grant: Grant
    phase: AllocationPhase
    uses: Uses
    """What it counts in its namespace's quota."""
    since: float
    """When it was assumed or first seen, in seconds of the caller's clock."""
    init_over: bool = False
    pending: Grant | None = None
    """What it will hold once its pod carries it."""
    covering: Mapping[str, Charge] | None = None
    """Card id -> charge, where that is not what the grant amounts to: it does for either grant."""

    @property
    def charges(self) -> Mapping[str, Charge]:
        """Card id -> charge. Of 100,000 entries, tables would take more memory than all else."""
        if self.covering is not None:
            return self.covering
        return charges(self.grant.shares, init_over=self.init_over)


class TransactionRefused(Struct, frozen=True, kw_only=True):
    """Why a transaction was not taken. Nothing of it was."""

    uid: str
    reason: Reason
    message: str


class ObservedPod(Struct, frozen=True, kw_only=True):
    """A pod as the API server shows it. Without a grant it holds no share (yet)."""

    uid: str
    grant: Grant | None
    ended: bool = False
    """Gone or terminal."""
    init_over: bool = False
