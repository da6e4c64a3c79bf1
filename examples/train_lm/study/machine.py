# ufp4 - processor, compiler and commit of a run.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import subprocess


def machine_of(program, source, threads):
    return {"cpu": _cpu(), "compiler": _compiler(program), "commit": _commit(source), "threads": threads}


def _output(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    field = lambda name: next(iter(re.findall(rf"^{name}\s*:\s*(.+)$", text, re.M)), "")
    name = field("model name") or os.uname().machine
    family = f", family {field('cpu family')} model {field('model')}" if field("cpu family") else ""
    return f"{name}{family}, {os.cpu_count()} threads"


def _compiler(program):
    """The compiler and build type, from the CMake cache of the program's build folder."""
    for folder in pathlib.Path(program).resolve().parents:
        cache = folder / "CMakeCache.txt"
        if cache.is_file():
            text = cache.read_text(encoding="utf-8", errors="replace")
            field = lambda name: next(iter(re.findall(rf"^{name}:\w+=(.*)$", text, re.M)), "")
            version = _output(field("CMAKE_CXX_COMPILER") or "c++", "--version").splitlines()
            kind = field("CMAKE_BUILD_TYPE")
            return " ".join(filter(None, [version[0] if version else "unknown", kind]))
    return "unknown"


def _commit(source):
    commit = _output("git", "-C", str(source), "rev-parse", "--short=12", "HEAD")
    changed = _output(
        "git",
        "-C",
        str(source),
        "status",
        "--porcelain",
        "--",
        "include",
        "examples/train_lm/*.hpp",
        "examples/train_lm/*.cpp",
    )
    return (commit + (" with changes" if changed else "")) or "unknown"
