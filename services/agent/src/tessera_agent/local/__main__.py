"""`python -m tessera_agent.local`: the daemon that `tessera run` starts, or systemd."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from tessera_agent.local.daemon import LocalPaths
from tessera_agent.local.main import LocalSettings, serve
from tessera_core.hook.paths import HOOK_LIBRARY, HOOK_LIBRARY_HOST
from tessera_runtime import atomic_write
from tessera_runtime.process import ExitStatus, run

_BUILD: Final = Path(__file__).parents[5] / "libs" / "hook" / "build"
"""Of a checkout."""
_MACHINE: Final = "cards=2 memory=16g"
_ALL: Final = 0o777


def main() -> int:
    """Run the daemon."""
    parser = argparse.ArgumentParser(prog="tessera-local", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="its socket and files")
    parser.add_argument("--hook", type=Path, help="the hook's library")
    parser.add_argument("--simulated", action="store_true", help="share simulated cards")
    parser.add_argument("--driver", type=Path, help="folder of the simulated driver")
    parser.add_argument(
        "--root", type=Path,
        help="where this machine's root is (/); simulated cards have device nodes below it alone",
    )  # fmt: skip
    parser.add_argument("--idle", type=float, default=60.0, help="seconds until it ends, idle")
    options = parser.parse_args()
    os.umask(0o022)
    hook = options.hook or _first(Path(HOOK_LIBRARY_HOST), _BUILD / "libtessera.so")
    driver = options.driver or _BUILD / "sim" if options.simulated else None
    for what, path in (("hook", hook), ("driver", driver)):
        if path is not None and not path.exists():
            sys.stderr.write(f"{what} {path}: it is not there: build it, or name another\n")
            return ExitStatus.BAD_SETTINGS
    settings = LocalSettings(
        folder=options.folder.resolve(), idle_s=options.idle,
        paths=LocalPaths(
            hook=hook.resolve(), driver=driver.resolve() if driver else None,
            preload=_preload(options.folder.resolve()),
            machine=_machine(options.folder.resolve()) if driver else None,
            root=options.root or (None if driver else Path("/")),
        ),
        inherited=os.environ.get("LISTEN_PID") == str(os.getpid()),
    )  # fmt: skip
    return run(serve, name="local", settings=settings)


def _first(*paths: Path) -> Path:
    return next((path for path in paths if path.exists()), paths[0])


def _preload(folder: Path) -> Path:
    path = folder / "ld.so.preload"
    atomic_write.replace(path, f"{HOOK_LIBRARY}\n".encode())
    return path


def _machine(folder: Path) -> Path:
    """A simulated machine that processes of every user may use, as they may use cards."""
    place = folder / "machine"
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(_ALL)
    machine = place / "state"
    for made in (machine, place / "state.life"):
        made.touch()
        made.chmod(0o666)
    os.environ["TESSERA_SIM_STATE"] = str(machine)
    os.environ.setdefault("TESSERA_SIM_CONFIG", _MACHINE)
    return machine


if __name__ == "__main__":
    sys.exit(main())
