"""The vendor whose cards one machine without a cluster shares."""

from __future__ import annotations

from typing import Final

VENDOR: Final = "nvidia"
MANAGEMENT_LIBRARY: Final = "libnvidia-ml.so.1"
"""Of the simulated driver, in its folder."""
