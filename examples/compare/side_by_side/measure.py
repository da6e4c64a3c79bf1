# ufp4 - the SQNR of every preset on one kind of data, measured by the tool: the numbers of docs/side_by_side.md.
# SPDX-License-Identifier: Apache-2.0
"""A Result is (data, format, rht, search, sqnr_db): rht is 1 after a random Hadamard transform of the format's block,
search is 1 with mse_search. Four Over Six takes no search, and has no such results. Of several tensors, signal and noise are
summed.

Four Over Six is measured as formats of its own: nvfp4 under the two scale rules, and Transformer Engine's two variants,
which are no scale rules and have a program of their own, te_four_over_six.
"""

import collections
import csv
import fnmatch
import io
import json
import math
import pathlib
import subprocess

import networks

RANDOM = ("gauss", "laplace", "t5", "outliers")
RULES = {"nvfp4_four_over_six": "four_over_six", "nvfp4_four_over_six_mae": "four_over_six_mae"}
TE = ("te_nvfp4_four_over_six", "te_nvfp4_four_over_six_448")
Result = collections.namedtuple("Result", "data format rht search sqnr_db")
# One call of the tool: what to measure; of a rule, the name that takes the place of nvfp4.
Run = collections.namedtuple("Run", "search arguments name", defaults=(None,))
ALL_RUNS = (Run(0, ["--format", "all"]), Run(1, ["--format", "all", "--search", "mse"]))
RULE_RUNS = tuple(Run(0, ["--format", "nvfp4", "--rule", rule], name) for name, rule in RULES.items())


def run(tool, *arguments):
    done = subprocess.run([str(tool), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"side_by_side: {done.stderr.strip()}")
    return done.stdout


def formats_of(tool):
    """What `ufp4 formats --json` has of every preset, and behind nvfp4 its variants with Four Over Six."""
    formats = []
    for preset in json.loads(run(tool, "formats", "--json"))["formats"]:
        formats.append(preset)
        if preset["name"] == "nvfp4":
            formats += [{**preset, "name": name} for name in (*RULES, *TE)]
    return formats


def takes_search(preset):
    return preset["name"] not in RULES and preset["name"] not in TE


def read_csv(text, data, search=0, name=None):
    for row in csv.DictReader(io.StringIO(text)):
        yield Result(data, name or row["format"], int(row["rht"] != "0"), search, float(row["sqnr_db"]))


def measure_random(tool, data, runs=None):
    results = []
    for search, arguments, name in runs or (*ALL_RUNS, *RULE_RUNS):
        results += read_csv(run(tool, "compare", "--random", data, *arguments, "--csv"), data, search, name)
    return results


def measure_te_random(te, data):
    return list(read_csv(run(te, "random", data), data))


def measure_te_file(te, data, path, pattern):
    """Of the tensors of a .safetensors file whose names match the pattern."""
    names = networks.read_safetensors(pathlib.Path(path).read_bytes())
    return list(read_csv(run(te, *(f"{path}:{name}" for name in names if fnmatch.fnmatchcase(name, pattern))), data))


def measure_file(tool, data, path, pattern):
    """Of the tensors of a file whose names match the pattern."""
    results = []
    for search, arguments, name in (*ALL_RUNS, *RULE_RUNS):
        report = json.loads(run(tool, "inspect", str(path), "--tensor", pattern, *arguments, "--json"))
        signal, noise = collections.Counter(), collections.Counter()
        for tensor in report["tensors"]:
            energy = tensor["rms"] ** 2 * tensor["rows"] * tensor["columns"]
            for outcome in tensor["formats"]:
                key = (name or outcome["format"], int(outcome["rht"] != 0))
                signal[key] += energy
                noise[key] += energy / 10 ** (outcome["sqnr_db"] / 10)
        results += [Result(data, *key, search, decibels(signal[key] / noise[key])) for key in signal]
    return results


def decibels(ratio):
    return 10 * math.log10(ratio)


def write_results(path, results):
    lines = [",".join(Result._fields)]
    lines += [f"{r.data},{r.format},{r.rht},{r.search},{r.sqnr_db:.4f}" for r in results]
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def read_results(path):
    with open(path, newline="") as file:
        return [
            Result(r["data"], r["format"], int(r["rht"]), int(r["search"]), float(r["sqnr_db"]))
            for r in csv.DictReader(file)
        ]
