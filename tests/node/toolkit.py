"""Plays a vendor's container runtime: it stands before runc and gives a container the driver, and
of the cards those that one of its variables names, as that vendor's own does. So a container that
ought to see no card has none, whatever the reason.

Run as a program: `toolkit.py RUNC LIBRARIES MACHINE runc's arguments`. It imports little, as it
runs once for each container.
"""

import json
import os
import sys
from pathlib import Path

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
NOTHING = ("", "void", "none")
EVERYTHING = "all"
LIBRARIES = "/usr/local/driver"
MACHINE = "/usr/local/machine"
USUAL = "/tmp"  # noqa: S108  (in the container; where the driver looks by itself)
STANDARD = f"/usr/lib/{os.uname().machine}-linux-gnu"
"""Where a vendor's runtime puts the libraries. They are in LIBRARIES too, for images whose loader
does not look here."""
PROGRAM = Path(__file__).parents[2] / "deploy" / "images" / "nvidia-smi"
"""The driver's program, which that runtime puts into /usr/bin."""
DRIVER = (f"LD_LIBRARY_PATH={LIBRARIES}", f"TESSERA_SIM_STATE={MACHINE}/tessera-sim-0")
"""Variables by which the driver is found: a real one lies where it is looked for."""


def main(runc: str, libraries: str, machine: str, *arguments: str) -> None:
    if "create" in arguments:
        bundle = arguments[arguments.index("--bundle") + 1]
        config = Path(bundle, "config.json")
        spec = json.loads(config.read_text())
        given = dict(word.split("=", 1) for word in spec["process"].get("env", ()))
        if given.get(VARIABLE, "") not in NOTHING:
            give(spec, given, libraries, machine)
            config.write_text(json.dumps(spec))
    os.execv(runc, [runc, *arguments])  # noqa: S606  (it takes our place)


def give(spec: dict, env: dict[str, str], libraries: str, machine: str) -> None:  # type: ignore[type-arg]  # JSON
    everything = env[VARIABLE] == EVERYTHING
    searched = [env["LD_LIBRARY_PATH"]] if "LD_LIBRARY_PATH" in env else []
    env |= dict(word.split("=", 1) for word in DRIVER)
    env["LD_LIBRARY_PATH"] = ":".join([*searched, LIBRARIES])
    env["TESSERA_SIM_DEVICES"] = env[VARIABLE]
    if everything:  # our own agent, which refuses variables that it does not know
        del env["TESSERA_SIM_DEVICES"], env["TESSERA_SIM_STATE"]
    spec["process"]["env"] = [f"{name}={value}" for name, value in env.items()]
    at = USUAL if everything else MACHINE
    files = {str(PROGRAM): f"/usr/bin/{PROGRAM.name}"}
    files |= {str(path): f"{STANDARD}/{path.name}" for path in Path(libraries).glob("*.so.*")}
    mounts = [(source, destination, "ro") for source, destination in files.items()]
    for source, destination, how in (*mounts, (libraries, LIBRARIES, "ro"), (machine, at, "rw")):
        options = ["rbind", how]
        mount = {"source": source, "destination": destination, "type": "bind", "options": options}
        spec["mounts"].append(mount)


if __name__ == "__main__":
    main(*sys.argv[1:])
