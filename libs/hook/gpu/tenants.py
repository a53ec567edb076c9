"""Containers that compete for a card, and a stand-in for the agent that measures them by NVML."""

import ctypes
import statistics
import struct
import time
from pathlib import Path

from bench import LEFT_OUT, OVER, SEEN, WITHIN, WRONG

RAW_NS_AT = 4096 + 192
"""tessera_usage.card[0].raw_ns."""
MOST_POINTS = 3.0
"""A container's share may be off by so much: issue of the hook's accuracy."""


class Sample(ctypes.Structure):
    """nvmlProcessUtilizationSample_t."""

    _fields_ = [
        ("pid", ctypes.c_uint), ("stamp", ctypes.c_ulonglong), ("sm", ctypes.c_uint),
        ("mem", ctypes.c_uint), ("enc", ctypes.c_uint), ("dec", ctypes.c_uint),
    ]  # fmt: skip


class Running(ctypes.Structure):
    """nvmlProcessInfo_v2_t."""

    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]


class Nvml:
    """The card's processes and their samples, numbered as NVML numbers them: by the host, also in a container."""

    def __init__(self):
        self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self._nvml.nvmlInit_v2()
        self._device = ctypes.c_void_p()
        self._nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._device))

    def pids(self):
        """Who is on the card."""
        found = set()
        for kind in ("Compute", "MPSCompute"):
            count, rows = ctypes.c_uint(256), (Running * 256)()
            if getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses_v3")(self._device, ctypes.byref(count), rows) == 0:
                found.update(row.pid for row in rows[: count.value])
        return found

    def samples(self, since):
        """What was measured of each process after `since`, in microseconds; and NVML's answer, 0 when there is any."""
        count = ctypes.c_uint(256)
        rows = (Sample * 256)()
        answer = self._nvml.nvmlDeviceGetProcessUtilization(self._device, rows, ctypes.byref(count), ctypes.c_ulonglong(since))
        return (list(rows[: count.value]) if answer == 0 else []), answer


class Tenants:
    """Containers of several processes each."""

    def __init__(self, bench):
        self._bench = bench

    def _start(self, nvml, command, env):
        """A process, and the number that NVML has for it: its own, or else that of the one newcomer (in a pid namespace)."""
        before = nvml.pids()
        process = self._bench.start(command, env)
        until = time.monotonic() + 10
        while time.monotonic() < until and process.poll() is None:
            now = nvml.pids()
            if process.pid in now:
                return process, process.pid
            if len(now - before) == 1:
                return process, next(iter(now - before))
            time.sleep(0.01)
        return process, None

    def measure(self, name, shares, processes, us, seconds, extra=("sync", "1", "one"), *, bounded=True):  # noqa: PLR0913
        """Containers of so many processes with kernels of so many microseconds; the busy time is the kernels' own."""
        bench = self._bench
        needed = seconds + 2 + len(shares) * processes * 0.7
        if bench.left() < needed:
            bench.row(name, LEFT_OUT, "no time left")
            return
        errors, got, silent = [], [], False
        for _ in range(1 if bench.quick or us > 100000 else 3):
            if bench.left() < needed:
                break
            busy, silent = self._once(name, shares, processes, us, seconds, extra)
            if busy is None:
                bench.row(name, WRONG, "a process failed")
                return
            got.append(busy)
            errors.append(max(abs(b - s) for b, s in zip(busy, shares, strict=True)))
        error = statistics.median(errors)
        value = f"{[[round(b, 1) for b in busy] for busy in got]} of {shares}, off by {error:.2f}{', NVML does not measure' if silent else ''}"
        bench.row(name, (WITHIN if error <= MOST_POINTS else OVER) if bounded else SEEN, value, MOST_POINTS if bounded else None)

    def _once(self, name, shares, processes, us, seconds, extra):  # noqa: PLR0913
        """One run: percent of each container, and whether NVML was silent."""
        bench, nvml = self._bench, Nvml()
        begun = time.monotonic()
        total = seconds + 0.7 * len(shares) * processes
        containers, started = [], []
        for index, share in enumerate(shares):
            words = ("memory=2048", f"cores={share}")
            env = bench.container(f"{name}.{index}", *words)
            containers.append((env["TESSERA_FOLDER"], words, set()))
            for _ in range(processes):
                left = max(total - (time.monotonic() - begun), 0.5)
                process, pid = self._start(nvml, [bench.probe, "spin", str(us), str(left), *extra], env)
                started.append((index, process))
                if pid:
                    containers[index][2].add(pid)
        silent = self._watch(nvml, containers, total - (time.monotonic() - begun), started)
        busy = [0.0] * len(shares)
        for index, process in started:
            said = bench.finish(process, 60 + us / 1e6 * 20)
            if said is None:
                return None, silent
            busy[index] += float(dict(line.split(None, 1) for line in said.splitlines())["busy_pct"])
        return busy, silent

    def _watch(self, nvml, containers, seconds, started):
        """Report to each container's hook twice a second how long its processes had the card, from sample to sample."""
        measured, since, any_sample = [0.0] * len(containers), {}, False
        until, last = time.monotonic() + seconds, int(time.time() * 1e6)
        while time.monotonic() < until and any(p.poll() is None for _, p in started):
            time.sleep(0.5)  # noqa: TID251  (a tool of its own, no loop to block)
            rows, _ = nvml.samples(last)
            last = max([row.stamp for row in rows] + [last])
            for row in rows:
                for index, (_, _, pids) in enumerate(containers):
                    if row.pid in pids:
                        any_sample = True
                        before = since.get(row.pid, row.stamp - 166667)
                        measured[index] += row.sm / 100 * min(row.stamp - before, 3_000_000) * 1000
                        since[row.pid] = row.stamp
            for index, (folder, words, _) in enumerate(containers):
                raw = raw_ns(folder)
                if raw is not None and measured[index]:
                    self._bench.limit(folder, *words, f"measured={int(measured[index])}", f"measured_usage={raw}")
        return not any_sample

    def says_of_itself(self):
        """Whether NVML names and measures a process that keeps the card busy."""
        nvml = Nvml()
        process, pid = self._start(nvml, [self._bench.probe, "spin", "1000", "2", "async"], None)
        time.sleep(1.5)  # noqa: TID251
        rows, answer = nvml.samples(0)
        process.kill()
        process.communicate()
        seen = [row.sm for row in rows if row.pid == pid]
        return f"named {pid is not None}, as itself {pid == process.pid}, measured {max(seen) if seen else f'not at all (answer {answer})'}"


def raw_ns(folder):
    """The hook's own figure at this moment."""
    try:
        with Path(folder, "usage").open("rb") as usage:
            usage.seek(RAW_NS_AT)
            return struct.unpack("<Q", usage.read(8))[0]
    except (OSError, struct.error):
        return None
