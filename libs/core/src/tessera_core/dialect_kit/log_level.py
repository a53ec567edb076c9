"""What HAMi-core's variable says of the log in a container, in the levels of Tessera's hook.

HAMi-core logs to standard error: 0 is errors alone, 1 is what it logs by itself, 3 and more is
everything. Tessera's hook logs nowhere until it is given a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tessera_core.dialect_kit.lending_terms import whole_number

LOG_LEVEL_ENV: Final = "LIBCUDA_LOG_LEVEL"
LOG_FILE_ENV: Final = "TESSERA_LOG_FILE"
"""Where the hook logs."""
STANDARD_ERROR: Final = "stderr"
_ERRORS: Final = 1
_WARNINGS: Final = 2
_NOTES: Final = 3
_ALL_FROM: Final = 3


def hami_core_log_level(env: Mapping[str, str]) -> int:
    """The level of the hook: 1 errors, 2 warnings, 3 notes; 0 where the variable says nothing."""
    level = whole_number(env.get(LOG_LEVEL_ENV, ""))
    return 0 if level is None else log_level_of(level)


def log_level_of(hamis: int) -> int:
    """The hook's level for a value of the variable: 1 errors, 2 warnings, 3 notes."""
    if hamis >= _ALL_FROM:
        return _NOTES
    return _WARNINGS if hamis > 0 else _ERRORS


def no_log_level(_env: Mapping[str, str]) -> int:
    """Of a dialect that has no words for it."""
    return 0
