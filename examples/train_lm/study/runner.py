# ufp4 - makes the runs of a grid: several at once; can be stopped and continued at any time.
# SPDX-License-Identifier: Apache-2.0
"""The run folders are the only state. A folder that has study.json with the same arguments, and result.json, is done; one
with a checkpoint is resumed from it; any other is started again. Each train_lm inherits a lock on its folder, so that a
study that was killed and started again does not train in a folder where a train_lm of the first study still runs. On
Linux such a train_lm is interrupted, and writes a checkpoint, when its study ends.
"""

import collections
import ctypes
import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import grid
import records
from machine import machine_of

GRACE_SECONDS = 120  # the time that an interrupted train_lm has to write its checkpoint
CHECKPOINT_STEPS = 25  # steps that a run can lose by kill -9
REJECTED = (1, 2)  # train_lm's exit statuses where it cannot resume from the folder
INTERRUPTED = 130  # train_lm's exit status after SIGINT or SIGTERM; it has written a checkpoint
ENDED_TIMES = 3  # a run that signals end more often has failed (no memory, or the machine shuts down)
DIVERGED = 3  # train_lm's exit status where the loss is not finite; the run is complete, its losses are null


class StudyError(RuntimeError):
    pass


# ---- one folder


def folder_name(run):
    return run.key


def state(folder, run):
    """done | resume | new | damaged (its result.json) | foreign (of other arguments)"""
    plan = folder / "study.json"
    if not folder.exists() or (not plan.exists() and not any(f for f in folder.iterdir() if f.name != "run.lock")):
        return "new"
    try:
        same = json.loads(plan.read_text(encoding="utf-8"))["arguments"] == list(run.arguments)
    except (OSError, ValueError, KeyError, TypeError):
        same = None
    if same is None and not (folder / "result.json").exists() and not (folder / "checkpoint.safetensors").exists():
        return "new"
    if not same:
        return "foreign"
    if (folder / "result.json").exists():
        try:
            if isinstance(json.loads((folder / "result.json").read_text(encoding="utf-8")), dict):
                return "done"
        except (OSError, ValueError):
            return "damaged"
    return "resume" if (folder / "checkpoint.safetensors").exists() else "new"


def move_aside(folder):
    """Renames a folder so that the report does not read it: names that begin with a dot are skipped."""
    for n in range(1, 1000):
        target = folder.with_name(f".{folder.name}.aside-{n}")
        if not target.exists():
            folder.rename(target)
            return target
    raise StudyError(f"{folder.parent}: too many copies of {folder.name}: 999")


def _die_with_parent():
    """In the child: SIGINT when the study ends for any reason. Only on Linux."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # with `nohup study.py &` the child would inherit that it is ignored
    os.setpgrp()  # the study passes a Ctrl-C of the terminal on, once


@dataclasses.dataclass
class Job:
    run: object
    folder: pathlib.Path
    process: subprocess.Popen
    resumed: bool
    began: float
    lock: object

    def progress(self):
        """The share of the steps done, or None if unknown."""
        try:
            steps = _steps(json.loads((self.folder / "config.json").read_text(encoding="utf-8")))
            with open(self.folder / "log.csv", "rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - 400))
                last = file.read().decode(errors="replace").strip().splitlines()[-1]
            return min(1.0, int(last.split(",")[0]) / steps)
        except (OSError, ValueError, KeyError, IndexError, TypeError, ZeroDivisionError):
            return None


def _steps(config):
    for place in (config, *(v for v in config.values() if isinstance(v, dict))):
        if "steps" in place:
            return int(place["steps"])
    raise KeyError("steps")


# ---- all of them


class Study:
    def __init__(self, runs, out, program, source, jobs=1, hours=None, threads=1, log=print):
        self.runs, self.out = runs, pathlib.Path(out)
        self.program, self.jobs, self.threads, self.log = pathlib.Path(program), jobs, threads, log
        self.end = None if hours is None else time.monotonic() + 3600 * hours
        self.machine = machine_of(program, source, threads)
        self.ended = collections.Counter()  # run -> how often a signal ended it
        self.seconds = {}  # model -> wall-clock seconds of each whole run of this call
        self.failed = []
        self.stopping = False
        self.status_width = 0

    def run(self):
        """Returns (done, all, failed). KeyboardInterrupt and the end of --hours stop the runs with a checkpoint."""
        if not self.program.is_file() or not os.access(self.program, os.X_OK):
            raise StudyError(f"--train-lm: no program {self.program}; build it, or give another path")
        self.out.mkdir(parents=True, exist_ok=True)
        lock = _lock(self.out / ".study.lock")
        if lock is None:
            raise StudyError(f"--out: another study is running in {self.out}")
        waiting, jobs = self._plan(), []
        try:
            while waiting or jobs:
                self._start(waiting, jobs)
                self._reap(waiting, jobs)
                self._status(waiting, jobs)
                if self.end is not None and time.monotonic() > self.end:
                    self.log("--hours are over: stopping the runs with a checkpoint")
                    break
                if self.stopping:
                    break
                time.sleep(0.05 if jobs and time.monotonic() - jobs[-1].began < 2 else 0.3)
        except KeyboardInterrupt:
            self.log("interrupted: stopping the runs with a checkpoint (the same command continues)")
        finally:
            self._interrupt(jobs)
            self._clear_status()
            lock.close()
        done = sum(state(self.out / folder_name(r), r) == "done" for r in self.runs)
        return done, len(self.runs), self.failed

    def _plan(self):
        waiting, done, resumed = [], 0, 0
        for run in self.runs:
            now = state(self.out / folder_name(run), run)
            if now == "foreign":
                self.log(
                    f"{folder_name(run)}: has a run of other settings, which is not changed; "
                    "give another --out, or move the folder"
                )
            elif now == "done":
                done += 1
            else:
                resumed += now == "resume"
                waiting.append(run)
        self.log(
            f"{len(self.runs)} runs: {done} done, {resumed} begun, {len(waiting) - resumed} not begun"
            + (f"; about {_span(self._left(waiting, []))} left" if waiting else "")
        )
        return waiting

    def _start(self, waiting, jobs):
        busy = []
        while waiting and len(jobs) < self.jobs and not self.stopping:
            run = waiting.pop(0)
            if run.needs and not (self.out / run.needs).exists():
                if jobs or busy or any(r.key == run.needs.split("/")[0] for r in waiting):
                    busy.append(run)
                else:
                    self.failed.append(run.key)
                    self.log(f"FAILED   {run.key}: no {self.out / run.needs}, which another run makes")
                continue
            folder = self.out / folder_name(run)
            folder.mkdir(exist_ok=True)
            lock = _lock(folder / "run.lock")
            if lock is None:  # a train_lm of an earlier study, which writes a checkpoint and ends
                busy.append(run)
                continue
            jobs.append(self._launch(run, folder, lock))
        waiting[:0] = busy

    def _launch(self, run, folder, lock):
        now = state(folder, run)
        if now == "damaged":
            self.log(f"{folder.name}: result.json is damaged: moved to {move_aside(folder).name} and started again")
            folder.mkdir()
            lock.close()
            lock = _lock(folder / "run.lock")
            now = "new"
        machines = _machines(folder) if now == "resume" else []
        if self.machine not in machines:
            machines.append(self.machine)
        plan = {
            "model": run.model,
            "recipe": run.recipe,
            "seed": run.seed,
            "uses": list(run.uses),
            "shape": list(run.shape),
            "arguments": list(run.arguments),
            "machine": self.machine,
            "machines": machines,
        }
        records.write_atomically(folder / "study.json", json.dumps(plan, indent=1) + "\n")
        command = [
            str(self.program),
            *(a.replace(grid.OUT, str(self.out)) for a in run.arguments),
            "--threads",
            str(self.threads),
            "--out",
            str(folder),
            "--checkpoint-every",
            str(CHECKPOINT_STEPS),
            "--quiet",
        ]
        if now == "resume":
            command.append("--resume")
        else:
            for name in ("config.json", "log.csv", "probes.csv"):
                (folder / name).unlink(missing_ok=True)
        with open(folder / "output.txt", "wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[lock.fileno()],
                preexec_fn=_die_with_parent,
            )
        return Job(run, folder, process, now == "resume", time.monotonic(), lock)

    def _reap(self, waiting, jobs):
        for job in [j for j in jobs if j.process.poll() is not None]:
            jobs.remove(job)
            job.lock.close()
            self._clear_status()
            wall = time.monotonic() - job.began
            if job.process.returncode in (0, DIVERGED) and state(job.folder, job.run) == "done":
                if not job.resumed:
                    self.seconds.setdefault(job.run.model, []).append(wall)
                self.log(
                    f"done     {job.run.key}  {_loss(job.folder)}  {_span(wall)}" + (", resumed" if job.resumed else "")
                )
            elif _was_ended(job) and self.ended[job.run.key] < ENDED_TIMES:
                self.ended[job.run.key] += 1
                waiting.append(job.run)
                self.log(f"{job.run.key}: ended by a signal ({_last_words(job)}); will be resumed")
            elif job.resumed and job.process.returncode in REJECTED:
                self.log(
                    f"{job.run.key}: cannot be resumed ({_last_words(job)}): "
                    f"moved to {move_aside(job.folder).name} and started again"
                )
                again = self.out / folder_name(job.run)
                again.mkdir()
                jobs.append(self._launch(job.run, again, _lock(again / "run.lock")))
            else:
                self.failed.append(job.run.key)
                self.log(f"FAILED   {job.run.key}: {_last_words(job)}")
                if len(self.failed) >= 3 and not any(self.seconds.values()):
                    self.log("three runs failed and none succeeded: stopping")
                    self.stopping = True

    def _interrupt(self, jobs):
        for job in jobs:
            job.process.send_signal(signal.SIGINT)
        end = time.monotonic() + GRACE_SECONDS
        for job in jobs:
            try:
                job.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                job.process.kill()
                job.process.wait()
            job.lock.close()
        if jobs:
            self.log(f"{len(jobs)} runs stopped; the same command continues")

    def _left(self, waiting, jobs):
        seconds = lambda run: (
            sum(self.seconds[run.model]) / len(self.seconds[run.model])
            if self.seconds.get(run.model)
            else 60 * run.minutes
        )
        running = sum(seconds(j.run) * (1 - (j.progress() or 0)) for j in jobs)
        return (sum(map(seconds, waiting)) + running) / max(1, self.jobs)

    def _status(self, waiting, jobs):
        if not sys.stderr.isatty() or not jobs:
            return
        names = "  ".join(f"{j.run.key} {100 * p:.0f}%" if (p := j.progress()) is not None else j.run.key for j in jobs)
        line = (
            f"{len(self.runs) - len(waiting) - len(jobs)}/{len(self.runs)} | {names} |"
            f" {_span(self._left(waiting, jobs))} left"
        )
        line = line[: max(20, shutil.get_terminal_size().columns - 1)]
        sys.stderr.write("\r" + line.ljust(self.status_width))
        sys.stderr.flush()
        self.status_width = len(line)

    def _clear_status(self):
        if self.status_width:
            sys.stderr.write("\r" + " " * self.status_width + "\r")
            sys.stderr.flush()
            self.status_width = 0


def _was_ended(job):
    """Ended by a signal; the folder is usable."""
    return job.process.returncode < 0 or job.process.returncode == INTERRUPTED


def _lock(path):
    file = open(path, "w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _machines(folder):
    """The machines of the steps up to the checkpoint, from the study.json of the last start."""
    try:
        plan = json.loads((folder / "study.json").read_text(encoding="utf-8"))
        return [m for m in plan.get("machines") or [plan["machine"]] if isinstance(m, dict)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _last_words(job):
    try:
        lines = (job.folder / "output.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return (lines[-1][:200] if lines else "no output") + f"; exit status {job.process.returncode}"


def _loss(folder):
    try:
        loss = json.loads((folder / "result.json").read_text(encoding="utf-8"))["final_train_loss"]
        return "diverged" if loss is None else f"loss {float(loss):.5f}"
    except (OSError, ValueError, KeyError, TypeError):
        return "loss unknown"


def _span(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
