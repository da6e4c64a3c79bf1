# ufp4 - predicts from the machine code of each described kernel which share of its limit it can reach, and writes the table of docs/gpu.md.
# SPDX-License-Identifier: Apache-2.0
#
#   cost.py table|write-table NVDISASM RELEASE TARGET=CUBIN[,LOG]... gfx942=ASSEMBLY gfx950=…      (UFP4_BENCH_JSON: a bench.json, for the column "measured")
#
# One iteration of a block takes the longest of these times, and a call the iterations of the busiest multiprocessor, or the time that its
# bytes take at the rate of a copy:
#
# | limit   | of an iteration                                                                                                |
# |---------|----------------------------------------------------------------------------------------------------------------|
# | issue   | instructions of all warps, four in a clock cycle (NVIDIA)                                                      |
# | a unit  | cycles of the integer, float, special or (AMD) vector units, which each quarter of a multiprocessor has        |
# | matrix  | multiply-adds at the rate of the instruction, at the clock at which cuBLAS would run at its own rate           |
# | shared  | bytes of shared memory, 128 in a clock cycle                                                                   |
# | memory  | bytes of the call, at 0.92 of the data sheet's rate                                                            |
#
# The prediction is an upper bound in that units are assumed to overlap completely and no bank conflicts, launches, first and last
# iterations are counted; a lower one in that the longest path of a loop is taken, unless the row names the executed one.
import json
import os
import re
import sys
from collections import Counter
from math import ceil
from pathlib import Path

import gcn
import paths
import sass
from kernels import ROWS
from machines import COPY, MACHINES
from measured import share_of, shares

PAGE = Path(__file__).resolve().parents[3] / "docs" / "gpu.md"
BEGIN = "<!-- predictions: written by tests/gpu/sass_check.sh --write-table; edit tests/gpu/cost, not this text -->"
END = "<!-- end of predictions -->"
UNIT_NAMES = {"alu": "integer unit", "fma": "float unit", "special": "special unit", "vector": "vector unit"}
DATA_SHEET = {"FP4 units": ("tcgen05 f4", "mma f4", "mfma f4"), "bf16 units": ("mfma f16",)}


def iteration(kernel, row, machine):
    """(seconds by limit, instructions of a warp of each part) of one iteration of a block."""
    cycles, seconds, counts = Counter(), {}, []
    if row.executed:
        return {"issue": row.parts[0].warps * row.executed / 4 / machine.clock * 1e-9}, [row.executed]
    for part in row.parts:
        loop = paths.find_loop(kernel, part.has) if part.has else None
        if part.has and loop is None:
            raise SystemExit(f"kernels.py: {row.table_name} on sm_{machine.target}: no loop of {kernel.name} has {part.has}")
        path = paths.longest(kernel, loop, part.trips, part.cold)
        units = path.unit_cycles(machine.target)
        counts.append(round(units["vector"] / 4 if "vector" in units else path.issue))
        if not machine.target.startswith("gfx"):  # AMD's scalar, memory and vector instructions issue beside each other
            cycles["issue"] += part.warps * path.issue / 4
        for unit, of_warp in units.items():
            cycles[UNIT_NAMES[unit]] += part.warps * of_warp / 4
        cycles["shared"] += (part.warps * path.shared + part.shared) / 128
        for kind, work in path.matrix().items():
            instructions = part.warps / 4 if kind.startswith("wgmma") else part.warps
            seconds["matrix"] = seconds.get("matrix", 0) + instructions * work / machine.rates[kind] / machine.matrix_clock * 1e-9
        if part.matrix:
            kind, work = part.matrix
            seconds["matrix"] = seconds.get("matrix", 0) + work / machine.rates[kind] / machine.matrix_clock * 1e-9
    for limit, count in cycles.items():
        seconds[limit] = count / machine.clock * 1e-9
    return seconds, counts


def limit_seconds(row, machine):
    if row.limit == "memory":
        return row.memory(row.shape) / (machine.memory * COPY * 1e9)
    if row.limit == "cuBLAS bf16":
        return row.shape.flops / (machine.library * 1e12)
    rate = next(machine.rates[kind] for kind in DATA_SHEET[row.limit] if kind in machine.rates)
    return row.shape.flops / (2 * rate * machine.processors * machine.clock * 1e9)


def predict(kernel, row, machine):
    """(share of the limit, what bounds it, instructions)."""
    of_iteration, counts = iteration(kernel, row, machine)
    blocks, steps = row.iterations(row.shape)
    times = {limit: s * steps * ceil(blocks / machine.processors) for limit, s in of_iteration.items()}
    times["memory"] = row.memory(row.shape) / (machine.memory * COPY * 1e9)
    bound = max(times, key=times.get)
    library = row.shape.flops / (machine.library * 1e12) if row.library else 0
    return min(1.0, limit_seconds(row, machine) / (times[bound] + library)), bound, counts


def table(by_target, release):
    bench = os.environ.get("UFP4_BENCH_JSON")
    measured = shares(json.loads(Path(bench).read_text())) if bench else {}
    lines = [f"Instructions are those of nvcc {release}, of a warp in one iteration of the loop; on AMD those of clang for the vector unit.",
             "",
             "| call | kernel | GPU | shape | instructions | bound by | limit | predicted | wanted | measured |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for row in ROWS:
        for name in row.machines:
            machine = MACHINES[name]
            kernel = next((k for k in by_target.get(machine.target, ()) if re.search(row.kernel, k.name)), None)
            if kernel is None:
                raise SystemExit(f"kernels.py: no kernel of sm_{machine.target} matches {row.kernel}")
            share, bound, counts = predict(kernel, row, machine)
            found = share_of(measured, row)
            wanted = "" if row.wanted is None else f"{row.wanted:.2f}"
            lines.append(f"| {row.what} | `{row.table_name}` | {name} | {row.shape.text} | {' + '.join(map(str, counts))} | {bound} "
                         f"| {row.limit} | {share:.2f} | {wanted} | {'no' if found is None else f'{found:.2f}'} |")
    return lines


def main(command, nvdisasm, release, *inputs):
    by_target = {}
    for item in inputs:
        target, files = item.split("=", 1)
        path = files.split(",")[0]
        by_target[target] = gcn.read(path) if target.startswith("gfx") else sass.read(path, nvdisasm)
    lines = table(by_target, release)
    if command == "table":
        print("\n".join(lines))
        return 0
    page = PAGE.read_text()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:begin] + "\n\n" + "\n".join(lines) + "\n\n" + page[end:])
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 5 or sys.argv[1] not in ("table", "write-table"):
        sys.exit("usage: cost.py table|write-table NVDISASM RELEASE TARGET=CUBIN[,LOG]...")
    sys.exit(main(*sys.argv[1:]))
