"""Runs programs within a part's deadline, bare and under the hook, and keeps rows with verdicts."""

import os
import statistics
import subprocess
import time

WITHIN, OVER, RIGHT, WRONG, LEFT_OUT, SEEN = "within", "over", "right", "wrong", "left out", "seen"


class Bench:
    """One machine's run."""

    def __init__(self, build, out, *, quick):
        self.build, self.out, self.quick = build, out, quick
        self.probe = str(out / "probe")
        self.repeats = 1 if quick else 7
        self.parts, self.rows, self.part, self.until = {}, [], "", 0.0
        self.machine = {"card": self._smi(), "uuid": self.lines([self.probe, "uuid"], 60, raw=True).strip()}
        if not self.machine["uuid"].startswith("GPU-"):
            raise SystemExit("no GPU answers")

    def _smi(self):
        try:
            return subprocess.run(
                ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,mig.mode.current,compute_mode", "--format=csv,noheader"],
                check=True, capture_output=True, text=True, timeout=20,
            ).stdout.strip()  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            return f"nvidia-smi: {error}"

    def begin(self, part, seconds):
        """A part begins; it has so many seconds."""
        self.part, self.rows, self.until = part, [], time.monotonic() + seconds
        print(f"== {part}", flush=True)

    def end(self, seconds):
        """It is over."""
        self.parts[self.part] = {"seconds": round(seconds, 1), "rows": self.rows}

    def left(self):
        """Seconds until the part must be over."""
        return self.until - time.monotonic()

    def row(self, name, verdict, value, budget=None):
        """One line of the report."""
        self.rows.append({"name": name, "value": value, "budget": budget, "verdict": verdict})
        print(f"{self.part}.{name}: {value}{'' if budget is None else f' (budget {budget})'}: {verdict}", flush=True)

    def budget(self, name, value, most):
        """A figure that has a budget."""
        self.row(name, WITHIN if value <= most else OVER, round(value, 2), most)

    def container(self, name, *words):
        """A fresh container: its environment."""
        folder = self.out / "containers" / f"{self.part}.{name}"
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("limits", "usage"):
            (folder / file).unlink(missing_ok=True)
        self.limit(folder, *words)
        return {
            "TESSERA_LIMITS": str(folder / "limits"), "TESSERA_USAGE": str(folder / "usage"), "TESSERA_FOLDER": str(folder),
            "TESSERA_LOG_FILE": str(self.out / "hook.log"), "LD_PRELOAD": f"{self.build}/libtessera.so",
        }  # fmt: skip

    def limit(self, folder, *words):
        """The container's limits from now on."""
        subprocess.run([f"{self.build}/tessera-limits", f"{folder}/limits", f"card={self.machine['uuid']}", *words], check=True)

    def start(self, command, env=None):
        """A process, bare or in a container."""
        with (self.out / "log.txt").open("a") as log:
            return subprocess.Popen(command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=log, text=True)

    def finish(self, process, seconds):
        """What it said; None when it failed or was late."""
        try:
            said, _ = process.communicate(timeout=max(min(seconds, self.left()), 1) if self.until else seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None
        return said if process.returncode == 0 else None

    def lines(self, command, seconds, env=None, *, raw=False):
        """The figures that a command prints as NAME VALUE, with its checks; None when it failed or was late."""
        said = self.finish(self.start(command, env), seconds)
        if raw:
            return said or ""
        if said is None:
            return None
        rows = [line.split(None, 1) for line in said.splitlines()]
        return {row[0] if row[0] != "check" else f"check {row[1].split()[0]}": row[1] for row in rows if len(row) == 2}

    def checks(self, name, command, seconds, env=None):
        """A command's checks become rows, its figures too."""
        if self.left() < 1:
            self.row(name, LEFT_OUT, "no time left")
            return None
        got = self.lines(command, seconds, env)
        if got is None:
            self.row(name, WRONG, "failed or was late")
            return None
        for key, value in got.items():
            if key.startswith("check "):
                self.row(f"{name}.{key[6:]}", RIGHT if value.split()[1] == "ok" else WRONG, value)
            else:
                self.row(f"{name}.{key}", SEEN, value)
        return got

    def paired(self, name, command, seconds, env):
        """The medians of several runs, bare and hooked in turns; None when a run failed or the time is over."""
        bare, hooked = [], []
        for _ in range(self.repeats):
            if self.left() < seconds / 4:
                break
            first, second = self.lines(command, seconds), self.lines(command, seconds, env)
            if first is None or second is None:
                self.row(name, WRONG, "a run failed or was late")
                return None
            bare.append(first)
            hooked.append(second)
        if not bare:
            self.row(name, LEFT_OUT, "no time left")
            return None
        return {key: (middle(bare, key), middle(hooked, key)) for key in bare[0]}

    def report(self):
        """Everything, and a verdict."""
        verdicts = [row["verdict"] for part in self.parts.values() for row in part["rows"]]
        bad = sum(v in (OVER, WRONG) for v in verdicts)
        return {
            "machine": self.machine, "quick": self.quick, "verdict": "bad" if bad else "good", "bad": bad,
            "good": sum(v in (WITHIN, RIGHT) for v in verdicts), "left_out": verdicts.count(LEFT_OUT), "parts": self.parts,
        }  # fmt: skip


def middle(runs, key):
    """The median of a figure."""
    return statistics.median(float(run[key]) for run in runs)
