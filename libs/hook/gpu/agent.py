"""Stands in for the agent on a card with two tenants.

Measures each one's GPU time with NVML and tells its hook through the limits file.
Usage: agent.py SECONDS TOOL NAME:PID:UUID:WORDS:FOLDER ...
"""

import ctypes
import struct
import subprocess
import sys
import time
from pathlib import Path

RAW_NS_AT = 4096 + 192  # tessera_usage.card[0].raw_ns


class Sample(ctypes.Structure):
    """nvmlProcessUtilizationSample_t."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("stamp", ctypes.c_ulonglong),
        ("sm", ctypes.c_uint),
        ("mem", ctypes.c_uint),
        ("enc", ctypes.c_uint),
        ("dec", ctypes.c_uint),
    ]


def samples(nvml, device, since):
    """Return what NVML saw of each process after `since`, in microseconds."""
    count = ctypes.c_uint(0)
    nvml.nvmlDeviceGetProcessUtilization(
        device, None, ctypes.byref(count), ctypes.c_ulonglong(since)
    )
    if count.value == 0:
        return []
    rows = (Sample * count.value)()
    if (
        nvml.nvmlDeviceGetProcessUtilization(
            device, rows, ctypes.byref(count), ctypes.c_ulonglong(since)
        )
        != 0
    ):
        return []
    return list(rows[: count.value])


def raw_ns(folder):
    """Return the hook's own figure at this moment."""
    try:
        with (Path(folder) / "usage").open("rb") as usage:
            usage.seek(RAW_NS_AT)
            return struct.unpack("<Q", usage.read(8))[0]
    except (OSError, struct.error):
        return None


def main():
    """Measure every half second until the time is over."""
    seconds, tool = float(sys.argv[1]), sys.argv[2]
    tenants = [
        dict(zip(("name", "pid", "uuid", "words", "folder"), arg.split(":", 4), strict=True))
        for arg in sys.argv[3:]
    ]
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()
    device = ctypes.c_void_p()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
    measured = dict.fromkeys((t["name"] for t in tenants), 0)
    end, last, since = time.time() + seconds, time.time(), int(time.time() * 1e6)
    while time.time() < end:
        time.sleep(0.5)  # noqa: TID251  (a tool of its own, no loop to block)
        now = time.time()
        rows = samples(nvml, device, since)
        since = max([row.stamp for row in rows] + [since])
        for tenant in tenants:
            seen = [row.sm for row in rows if row.pid == int(tenant["pid"])]
            if not seen:
                continue
            measured[tenant["name"]] += int(sum(seen) / len(seen) / 100 * (now - last) * 1e9)
            raw = raw_ns(tenant["folder"])
            if raw is not None:
                subprocess.run(
                    [
                        tool,
                        str(Path(tenant["folder"]) / "limits"),
                        "card=" + tenant["uuid"],
                        *tenant["words"].split(),
                        f"measured={measured[tenant['name']]}",
                        f"measured_usage={raw}",
                    ],
                    check=False,
                )
        last = now


if __name__ == "__main__":
    main()
