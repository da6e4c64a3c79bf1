# ufp4 - the SQNR of every preset on one kind of data, measured by the tool: the numbers of docs/side_by_side.md.
# SPDX-License-Identifier: Apache-2.0
"""A Result is (data, format, rht, search, sqnr_db): rht is 1 after a random Hadamard transform of the format's block,
search is 1 with mse_search. Formats that take no search have no such results. Of several tensors, signal and noise are
summed.
"""

import collections
import csv
import io
import json
import math
import pathlib
import subprocess

RANDOM = ("gauss", "laplace", "t5", "outliers")
Result = collections.namedtuple("Result", "data format rht search sqnr_db")


def run(tool, *arguments):
    done = subprocess.run([str(tool), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"side_by_side: {done.stderr.strip()}")
    return done.stdout


def formats_of(tool):
    """What `ufp4 formats --json` has of every preset."""
    return json.loads(run(tool, "formats", "--json"))["formats"]


def takes_search(preset):
    return not preset["more_grids"] and not preset["exponent_columns"]


def lists_of(tool):
    """(search, arguments) of the two runs over all formats: with default scales, and with the search."""
    presets = formats_of(tool)
    searched = ",".join(p["name"] for p in presets if takes_search(p))
    return ((0, ["--format", "all"]), (1, ["--format", searched, "--search", "mse"]))


def measure_random(tool, data, lists=None):
    results = []
    for search, arguments in lists or lists_of(tool):
        text = run(tool, "compare", "--random", data, *arguments, "--csv")
        for row in csv.DictReader(io.StringIO(text)):
            rht = int(row["rht"] != "0")
            results.append(Result(data, row["format"], rht, search, float(row["sqnr_db"])))
    return results


def measure_file(tool, data, path, pattern):
    """Of the tensors of a file whose names match the pattern."""
    results = []
    for search, arguments in lists_of(tool):
        report = json.loads(run(tool, "inspect", str(path), "--tensor", pattern, *arguments, "--json"))
        signal, noise = collections.Counter(), collections.Counter()
        for tensor in report["tensors"]:
            energy = tensor["rms"] ** 2 * tensor["rows"] * tensor["columns"]
            for outcome in tensor["formats"]:
                key = (outcome["format"], int(outcome["rht"] != 0))
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
