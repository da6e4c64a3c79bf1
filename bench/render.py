#!/usr/bin/env python3
# ufp4 - writes the report of a run of the benches, in Markdown.
# SPDX-License-Identifier: Apache-2.0
"""usage: render.py RESULTS_FOLDER [--out FILE]

Reads peaks.json (bench/peaks --json), compile.json (bench/compile_cost.sh --json) and *_bench.json (Google Benchmark's
JSON) from RESULTS_FOLDER, and goals.txt from its own folder. Writes to standard output without --out. Needs only the
standard library. The report is a build artifact; docs/performance.md, written by hand, holds the conclusions.
"""
import argparse
import datetime
import fnmatch
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


class Row:
    """The repetitions of one benchmark: best and median rate, and the best that its bound was measured at."""

    def __init__(self, name):
        self.name = name
        self.operation, self.format, self.isa, self.shape, threads = name.split("/")
        self.threads = int(threads)
        self.rates, self.bound, self.unit, self.kernel, self.bound_name = [], 0.0, "", "", ""

    def add(self, run):
        self.unit = next(key for key in run if key.endswith("B/s") or key.endswith("OP/s"))
        self.rates.append(run[self.unit])
        self.bound = max(self.bound, run.get("bound", 0.0))
        self.kernel, _, self.bound_name = run.get("label", "").partition(" | ")

    @property
    def best(self):
        return max(self.rates)

    @property
    def median(self):
        return sorted(self.rates)[len(self.rates) // 2]

    @property
    def share(self):
        return self.best / self.bound if self.bound else None


def read_rows(folder):
    rows = {}
    for path in sorted(folder.glob("*_bench.json")):
        # Written in the order in which they ended; the family's index is the order in which they were added.
        for run in sorted(json.loads(path.read_text())["benchmarks"], key=lambda run: run["family_index"]):
            if run.get("run_type") == "iteration":
                rows.setdefault(run["run_name"], Row(run["run_name"])).add(run)
    return rows


class Goals:
    def __init__(self, path, rows):
        self.rows, self.lines = rows, []
        for line in path.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                self.lines.append([field.strip() for field in line.split("|")])

    def of(self, row):
        """(words, value, floor value) in the row's unit, or None."""
        if row.isa in ("scalar", "native"):
            return None
        for pattern, kind, floor, goal in self.lines:
            if not fnmatch.fnmatchcase(row.name, pattern):
                continue
            reference = self.reference(row, kind)
            if not reference:
                return None
            least = float(floor) if floor != "-" else 0.75 * float(goal)
            wanted = float(goal) if goal != "-" else least
            return self.words(kind, wanted), wanted * reference, least * reference
        return None

    def reference(self, row, kind):
        if kind == "value":
            return 1.0
        if kind == "bound":
            return row.bound
        other = None
        if kind == "plain":
            other = self.rows.get("/".join([row.operation, row.format.split("+")[0], row.isa, row.shape, "1"]))
        if kind == "threads" and row.threads > 1:
            other = self.rows.get("/".join([row.operation, row.format, row.isa, row.shape, "1"]))
        return other and other.best * (row.threads if kind == "threads" else 1)

    @staticmethod
    def words(kind, wanted):
        return {"value": f"{wanted:g}", "bound": f"{wanted:.0%}", "plain": f"{wanted:g}x plain",
                "threads": f"{wanted:.0%} of linear"}[kind]

    def mark(self, row):
        """'' where the row reaches its goal or has none."""
        goal = self.of(row)
        if goal is None or row.best >= goal[1]:
            return ""
        return "▼▼" if row.best < goal[2] else "▼"


def number(x):
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 1 else f"{x:.2f}"


def percent(x):
    return f"{x:.0%}" if x >= 0.01 else "<1%"


def table(header, lines, left=1):
    """The first `left` columns are words, as is a column of goals; the others are figures."""
    out = ["| " + " | ".join(header) + " |",
           "|" + "|".join("---" if i < left or name == "goal" else "---:" for i, name in enumerate(header)) + "|"]
    return out + ["| " + " | ".join(line) + " |" for line in lines] + [""]


def folded(summary, lines):
    return ["<details>", f"<summary>{summary}</summary>", ""] + lines + ["</details>", ""]


class Report:
    def __init__(self, folder):
        self.rows = read_rows(folder)
        self.goals = Goals(HERE / "goals.txt", self.rows)
        self.peaks = json.loads((folder / "peaks.json").read_text())
        compile_json = folder / "compile.json"
        self.compile = json.loads(compile_json.read_text()) if compile_json.exists() else None
        self.machine = self.peaks["machine"]
        self.cores = int(self.machine["cores"])
        self.isas = ["native"] + self.machine["tiers"].split(", ")

    # ---- pieces

    def cell(self, row, speedup=False):
        """The best rate, the part of the limit (or how many times its row on one thread), and the mark."""
        if row is None:
            return ""
        beside = percent(row.share) if row.share is not None else ""
        if speedup:
            one = self.at(row.operation, row.format, row.isa, row.shape)
            beside = f"{row.best / one.best:.2f}x" if one else ""
        return " ".join(filter(None, [number(row.best), f"({beside})" if beside else "", self.goals.mark(row)]))

    def goal_words(self, row):
        goal = self.goals.of(row) if row else None
        return goal[0] if goal else ""

    def goal_cell(self, row_words, names):
        """What a line should reach, by its columns' words: '25 at 64 KB; 55% at 64 MB'."""
        words = list(dict.fromkeys(filter(None, row_words)))
        return "; ".join(w + " at " + ", ".join(n for each, n in zip(row_words, names) if each == w) for w in words)

    def formats(self, operation, keep):
        return list(dict.fromkeys(r.format for r in self.rows.values() if r.operation == operation and keep(r)))

    def at(self, operation, fmt, isa, shape, threads=1):
        return self.rows.get("/".join([operation, fmt, isa, shape, str(threads)]))

    def at_best(self, operation, fmt, shape, threads=1):
        """The row of the most capable instruction set that has a kernel for this shape."""
        for isa in reversed(self.isas):
            row = self.at(operation, fmt, isa, shape, threads)
            if row:
                return row
        return None

    def operation_table(self, operation, shapes, wanted, threads=(1,), speedup=False):
        """Lines: (format, isa) pairs, isa None for the best that a shape has; columns: shapes, {shape: heading}, for
        each number of threads. Goals that are the same for every line that has any stand in a last line, others in a
        column."""
        columns = [(s, t) for t in threads for s in shapes]
        heads = [shapes[s] + (f", {t} threads" if t > 1 and not speedup else "") for s, t in columns]
        found = []
        for fmt, isa in wanted:
            cells = [self.at(operation, fmt, isa, s, t) if isa else self.at_best(operation, fmt, s, t) for s, t in columns]
            if isa:  # what a table of the best shows already is left out
                cells = [c if c is not self.at_best(operation, fmt, s, t) else None for c, (s, t) in zip(cells, columns)]
            if any(cells):
                found.append((fmt, ", ".join(i for i in self.isas if i in {c.isa for c in cells if c}), cells))
        keep = [i for i in range(len(columns)) if any(cells[i] for _, _, cells in found)]
        if not keep:
            return []
        heads = [heads[i] for i in keep]
        lines = [[fmt, isa] + [self.cell(cells[i], speedup) for i in keep] for fmt, isa, cells in found]
        words = [[self.goal_words(cells[i]) for i in keep] for _, _, cells in found]
        common = [sorted(set(filter(None, column))) for column in zip(*words)]
        header = [operation, "isa"] + heads
        if any(common) and all(len(c) <= 1 for c in common) and len(found) > 1:
            lines.append(["*goal*", ""] + [f"*{c[0]}*" if c else "" for c in common])
        elif any(common):
            header.append("goal")
            lines = [line + [self.goal_cell(w, heads)] for line, w in zip(lines, words)]
        return table(header, lines, 2)

    def operation_section(self, title, operation, intro, shapes, threads=(1,)):
        ours = self.formats(operation, lambda r: r.isa != "native")
        best = [(f, None) for f in ours + self.formats(operation, lambda r: r.isa == "native")]
        lesser = [(f, isa) for isa in reversed(self.isas) for f in ours]
        out = [f"## {title}", ""] + intro + [""] + self.operation_table(operation, shapes, best, threads)
        other = self.operation_table(operation, shapes, lesser)
        return out + (folded("Other instruction sets, one thread", other) if other else [])

    # ---- sections

    def head(self):
        facts = self.machine
        lines = [["processor", f"{facts['cpu']}, {self.cores} cores"], ["caches", facts["caches"]],
                 ["instruction sets", facts["tiers"]], ["compiler", f"{facts['compiler']}, `{facts['flags']}`"],
                 ["date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")],
                 ["ufp4", facts["version"]]]
        below = sum(1 for r in self.rows.values() if self.goals.mark(r))
        with_goal = sum(1 for r in self.rows.values() if self.goals.of(r))
        return ["# Performance of ufp4 on this machine", "",
                "Measured by `bench/run.sh`: each figure of ufp4 with the limit of this machine.", "",
                ] + table(["", ""], lines, 2) + [
                "How to read the tables:", "",
                "- A figure is the best of several repetitions; one thread unless a column says otherwise. (Processor "
                "time then, wall time for several.)",
                "- The percentage is of the limit named above the table, measured in the same process just before.",
                "- ▼ is below the goal, ▼▼ below three quarters of it (or below its floor): "
                f"{below} of {with_goal} figures with a goal. Goals without a percent sign were set for a "
                "core of about 4 GHz with AVX-512 and AMX.",
                "- `native` rows are not ufp4: the simplest other way, compiled with -march=native.", ""]

    def limits(self):
        compute, memory = [], {}
        for line in self.peaks["limits"]:
            if line["unit"] == "GB/s":
                kind, level = line["what"].rsplit(", ", 1)
                memory.setdefault(kind, {})[level] = line
            else:
                compute.append([line["what"], line["unit"], number(line["one"])] +
                               ([number(line["all"])] if self.cores > 1 else []))
        threads = ["1 thread"] + ([f"{self.cores} threads"] if self.cores > 1 else [])
        out = ["## Limits of this machine", "", "Loops of one kind of instruction (`bench/peaks` prints only these). "
               "*Rescaled* converts the integer dot product of each block to binary32 and adds it with two scales.", ""]
        out += table(["multiply", "unit"] + threads, compute, 2)
        levels = list(next(iter(memory.values())))
        both = lambda l: number(l["one"]) + (f" / {number(l['all'])}" if self.cores > 1 else "")
        out += table(["GB/s, " + " / ".join(threads)] + levels,
                     [[kind] + [both(by[level]) for level in levels] for kind, by in memory.items()])
        return out + ["Read and write in place, and copies, count each byte once.", ""]

    def multiply(self):
        sizes = {"1x4096x4096": "M = 1", "1x4096x4096+rotating": "M = 1, from memory", "16x4096x4096": "M = 16",
                 "128x4096x4096": "M = 128", "512x4096x4096": "M = 512"}
        intro = ["C[M,N] = A[M,K] · B[N,K]ᵀ in GFLOP/s (2·M·N·K), N = K = 4096, operands quantized before the call.",
                 "The limit is the multiply unit that the kernel uses (rescaled where it sums integers); for M = 1 the "
                 "bandwidth that the weights are read with: one matrix again and again, or *from memory*, a different "
                 "one each call."]
        out = self.operation_section("Multiply", "gemm", intro, sizes)
        kernels = self.kernel_lines(sizes)
        if kernels:
            out += folded("Which kernels these are", kernels)
        if self.cores > 1:
            best = [(f, None) for f in self.formats("gemm", lambda r: r.isa not in ("native", "scalar"))]
            lines = self.operation_table("gemm", sizes, best, (self.cores,), speedup=True)
            out += [f"On {self.cores} threads, and how many times the figure on one:", ""] + lines if lines else []
        squares = {f"{n}x{n}x{n}": f"{n}" for n in (512, 1024, 2048)}
        best = [(f, None) for f in self.formats("gemm", lambda r: r.shape in squares)]
        out += ["M = N = K, one thread:", ""] + self.operation_table("gemm", squares, best)
        groups = {r.shape: r.shape for r in self.rows.values() if " of " in r.shape}
        if groups:
            best = [(f, None) for f in self.formats("gemm", lambda r: r.shape in groups)]
            out += ["Many small products (experts x M x N x K), in one call and in a call each:", ""]
            out += self.operation_table("gemm", groups, best, (1, self.cores) if self.cores > 1 else (1,))
        return out

    def kernel_lines(self, sizes):
        """Which kernel ran for which formats and M, and the limit it is held against."""
        runs = {}
        for fmt in self.formats("gemm", lambda r: r.isa != "native" and r.shape in sizes):
            for shape, name in sizes.items():
                row = self.at_best("gemm", fmt, shape)
                if row:
                    runs.setdefault((row.kernel, row.bound_name), {}).setdefault(fmt, []).append(name)
        lines = []
        for (kernel, bound), formats in runs.items():
            for names in dict.fromkeys(map(tuple, formats.values())):
                kernel_name, _, mode = kernel.partition(", ")
                lines.append([f"`{kernel_name}`", mode, bound, "; ".join(names),
                              ", ".join(f for f, n in formats.items() if tuple(n) == names)])
        return table(["kernel", "accumulates", "limit", "at", "operands"], lines, 5) if lines else []

    def memory_operations(self):
        sizes = {s: s.replace("KB", " KB").replace("MB", " MB") for s in ("64KB", "1MB", "8MB", "64MB")}
        threads = (1, self.cores) if self.cores > 1 else (1,)
        quantize = ["GB/s of input; the limit is reading that many bytes. +rht16: a Hadamard transform before; +sr: "
                    "stochastic rounding; +transposed: read along the rows; +bf16: bf16 input; +amax: the caller knows "
                    "the tensor's amax (else a two-level format reads its input twice)."]
        hadamard = ["GB/s of input; the limit is reading and writing in place, or copying, that many bytes."]
        dequantize = ["GB/s of output; the limit is a loop of stores of that many bytes."]
        return (self.operation_section("Quantize", "quantize", quantize, sizes, threads) +
                self.operation_section("Hadamard", "hadamard", hadamard, sizes, threads) +
                self.operation_section("Dequantize", "dequantize", dequantize, sizes, threads))

    def compiling(self):
        if self.compile is None:
            return []
        lines = [[c["what"], f"{c['seconds']:.1f}", c["goal"], f"{c['kilobytes']:.0f}" if "kilobytes" in c else ""]
                 for c in self.compile]
        return ["## Compiling", "", "Processor seconds of the compiler above; code and constants in the program.", "",
                ] + table(["program", "s", "at most, s", "KB"], lines)

    def every_row(self):
        lines = [[r.operation, r.format, r.isa, r.shape, str(r.threads), r.unit, number(r.best), number(r.median),
                  number(r.bound) if r.bound else "", r.bound_name] for r in self.rows.values()]
        header = ["operation", "format", "isa", "shape", "threads", "unit", "best", "median", "limit", "of"]
        return ["## Every row", ""] + folded(f"{len(lines)} rows, with medians and limits", table(header, lines, 6))

    def text(self):
        out = self.head() + self.limits() + self.multiply() + self.memory_operations() + self.compiling() + self.every_row()
        return "\n".join(out).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    text = Report(args.results).text()
    if args.out is None:
        sys.stdout.write(text)
    else:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
