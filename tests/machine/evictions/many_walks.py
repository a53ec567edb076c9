"""Takes walks of evictions by many seeds, and prints what was seen.

python -m tests.machine.evictions.many_walks 200 500 1000    seeds, steps of each, the first seed
"""

from __future__ import annotations

import sys

from tests.machine.evictions.walk import EvictionWalk
from tests.machine.gangs.many_walks import take_walks

if __name__ == "__main__":
    sys.exit(take_walks(EvictionWalk, *map(int, sys.argv[1:])))
