# ufp4 - tables of the second design: compressed CSV, one row per run or per gradient.
# SPDX-License-Identifier: Apache-2.0
"""results/second.csv.gz has a row per run: members of its record (records.py) without the nested ones. Lists are separated
by blanks, and cpu, compiler, commit are the machine's. results/gradients.csv.gz has a row per run, choice of GEMMs and
parameter, results/depth.csv.gz the rows of train_lm_depth. Rows are sorted. The same rows give the same text; the archive has no name and no time.
"""

import csv
import gzip
import io
import pathlib

import records

RUNS = (
    *("key", "model", "recipe", "seed", "uses", "train_loss", "valid_loss", "average_valid_loss", "steps", "tokens"),
    *("seconds", "checkpoint_hash", "text", "eigen", "cpu", "compiler", "commit", "shape", "arguments"),
)
GRADIENTS = ("model", "recipe", "seed", "gemm", "parameter", "batches", "draws", "gain", "bias", "variance", "cosine")
GRADIENTS += ("batch_variance",)
DEPTH = ("stack", "channels", "recipe", "draw", "layers", "gain", "cosine")
NUMBERS = {"train_loss", "valid_loss", "average_valid_loss", "steps", "tokens", "seconds"}
NUMBERS |= {"gain", "bias", "variance", "cosine", "batch_variance"}
INTEGERS = {"seed", "batches", "draws", "draw", "layers"}
LISTS = {"uses", "shape", "arguments"}
MACHINE = ("cpu", "compiler", "commit")


def run_rows(some_records):
    return [{**r, **{name: r["machine"].get(name, "") for name in MACHINE}} for r in some_records]


def gradient_rows(some_records):
    return [
        {"model": r["model"], "recipe": r["recipe"], "seed": r["seed"], **row}
        for r in some_records
        for row in r.get("gradients") or []
    ]


def text_of(columns, rows):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(sorted([_cell(row, name) for name in columns] for row in rows))
    return out.getvalue()


def _cell(row, name):
    value = row.get(name)
    if value is None:
        return ""
    return " ".join(value) if name in LISTS else repr(value) if isinstance(value, float) else str(value)


def rows_of(text):
    return [{name: _value(name, cell) for name, cell in row.items()} for row in csv.DictReader(io.StringIO(text))]


def _value(name, cell):
    if name in NUMBERS:
        return float(cell) if cell else None
    return int(cell) if name in INTEGERS else cell.split() if name in LISTS else cell


def read_runs(path):
    """The records of a table; none without a file."""
    return [{**row, "machine": {name: row[name] for name in MACHINE}} for row in read(path)]


def write(path, columns, rows):
    """The file is the old or the new one, even if this process is killed."""
    records.write_atomically(path, gzip.compress(text_of(columns, rows).encode(), compresslevel=9, mtime=0))


def read(path):
    path = pathlib.Path(path)
    return rows_of(gzip.decompress(path.read_bytes()).decode()) if path.exists() else []
