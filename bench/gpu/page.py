#!/usr/bin/env python3
"""ufp4 - docs/performance-gpu.md from what the GPU benches print: page.py FILE.json... PAGE.md

A file is an array of lines (bench/gpu/measure.hpp): objects with a "kind". Lines with a "variant" compare a choice with the
library's own. Predictions are those of docs/gpu.md.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests" / "gpu" / "cost"))
from kernels import ROWS  # noqa: E402
from measured import share_of, shares  # noqa: E402


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def of_kind(lines, kind):
    return [line for line in lines if line["kind"] == kind]


def number(value, form="{:.1f}"):
    return "" if value is None else form.format(value)


def share(value, limit):
    return number(value / limit, "{:.2f}") if limit else ""


def head(lines):
    if not of_kind(lines, "device"):
        raise SystemExit("no file has a line of kind \"device\": the bench did not start")
    run, device = (of_kind(lines, kind)[0] for kind in ("run", "device"))
    text = f"{device['name']}, {device['processors']} processors"
    if "driver" in device:
        text += f", {device['memory_bytes'] / 2**30:.0f} GiB; driver {device['driver']:.0f}, runtime {device['runtime']:.0f}"
    text += f"; code for {device['compiled']:.0f}{'a' if device['specific'] else ''}; commit {run['commit']}, {run['date']}."
    lines = ["# Performance on a GPU", "", "Written by `tests/gpu/borrowed.sh page`. " + text]
    if device.get("simulated"):
        lines += ["", "**A rehearsal in the CPU simulator: the figures mean nothing.**"]
    return lines + ["", "Times are medians; operands are rotated over four sets or more, so that the cache does not serve them."]


def limits(lines):
    rows = [[c["name"], number(c["rate"]), c["unit"]] for c in of_kind(lines, "ceiling")]
    return ["## Limits", "", "`mma/`: products without decoding. `decode/`: decoding without products.", ""] + table(
        ["what", "rate", ""], rows)


def accumulators(lines):
    def row(p):
        if "exact" in p:
            return ["", "", "exact" if p["exact"] else "not exact", ""]
        kept = p.get("subnormals")
        return [number(p["kept_bits"], "{:.0f}"), number(p["kept_bits_with_sum"], "{:.0f}"), p["rounding"],
                "" if kept is None else "kept" if kept else "flushed"]

    rows = [[p["name"].removeprefix("probe/")] + row(p) + ["yes" if p["bound"] else "NO"] for p in of_kind(lines, "probe")]
    return ["## How matrix instructions add", "",
            "Bits below the largest product that a small product keeps in one instruction; what happens to a term of 1.5 units "
            "below the last bit of the sum; subnormal operands. The bound of `fast` (numerics 6) is tested with 23 bits and "
            "truncation.", ""] + table(["instruction", "bits", "bits with a sum", "rounding", "subnormals", "bound holds"], rows)


def predicted(gpu):
    """(call, kernel) -> the cells of docs/gpu.md's table of predictions, for a GPU."""
    cells = [[c.strip(" `") for c in line.split("|")[1:-1]] for line in (TREE / "docs" / "gpu.md").read_text().splitlines()]
    return {(c[0], c[1]): c for c in cells if len(c) == 10 and c[2] == gpu}


def predictions(lines):
    device = of_kind(lines, "device")[0]
    gpu = next((name for row in ROWS for name in row.machines if name in device["name"]), "H100")
    table_of, found = predicted(gpu), shares(lines)
    rows = []
    for row in ROWS:
        if (cells := table_of.get((row.what, row.table_name))) is not None:
            rows.append([row.what, f"`{row.table_name}`", cells[7], cells[8], number(share_of(found, row), "{:.2f}"), row.limit])
    return [f"## Predicted and measured, {gpu}", "", "Shares of the limit. How they are predicted: gpu.md.", ""] + table(
        ["call", "kernel", "predicted", "wanted", "measured", "limit"], rows)


def memory_bound(lines):
    memory = of_kind(lines, "memory")
    copy = next((m["gbs"] for m in memory if m["name"] == "copy"), None)
    rows = [[m["name"], number(m["us"]), number(m["gbs"], "{:.0f}"), share(m["gbs"], copy)] for m in memory]
    return ["## Memory-bound operations", "", "Bytes read and written once. The limit is a kernel that copies.", ""] + table(
        ["operation", "microseconds", "GB/s", "of the copy"], rows)


def shape(line):
    return tuple(int(line[key]) for key in ("m", "n", "k"))


def products(lines):
    library = {(p["type"], shape(p)): p for p in of_kind(lines, "library")}
    read = next((c["rate"] for c in of_kind(lines, "ceiling") if c["name"] == "read"), None)

    def row(g):
        at = shape(g)
        bf16, fp8 = (library.get((kind, at), {}).get("us") for kind in ("bf16", "fp8"))
        return ["{}x{}x{}".format(*at), g["format"], g["accumulate"], g["kernel"], number(g["us"]), number(g["tflops"]),
                share(g["gbs"], read) if at[0] <= 64 else "", share(bf16, g["us"]) if bf16 else "",
                share(fp8, g["us"]) if fp8 else ""]

    heads = ["M x N x K", "format", "accumulate", "kernel", "microseconds", "TFLOP/s", "of reading", "cuBLAS bf16", "fp8"]
    gemm = of_kind(lines, "gemm")
    text = ["## quantized_gemm", "",
            "\"of reading\": bytes of the operands and of C against the rate of a kernel that reads. The last columns are the "
            "times of cublasLt over ufp4's: above 1, ufp4 is faster.", ""]
    text += table(heads, [row(g) for g in gemm if g["chosen"]])
    text += ["", "### Kernels that are not chosen", ""]
    best = {(g["format"], g["accumulate"], shape(g)): g["us"] for g in gemm if g["chosen"]}
    others = [row(g) + ["FASTER than the chosen" if g["us"] < best.get((g["format"], g["accumulate"], shape(g)), 0) else ""]
              for g in gemm if not g["chosen"]]
    return text + table(heads + [""], others) + ["", "cublasLt:", ""] + table(
        ["product", "microseconds", "TFLOP/s"], [[p["name"], number(p["us"]), number(p["tflops"])] for p in library.values()])


def layers(lines):
    rows = [[*l["name"].split("/")[1:], l] for l in of_kind(lines, "layer")]
    plain = {what: l["us"] for recipe, what, l in rows if recipe.startswith("bf16")}
    cells = [[recipe, what, number(l["us"]), number(l["tflops"]), share(plain.get(what), l["us"]) if what in plain else "",
              number(l["bytes"] / 1e9, "{:.2f}"), number(l["needed"] / 1e9, "{:.2f}"), number(l["launches"], "{:.0f}")]
             for recipe, what, l in rows]
    return ["## A linear layer", "",
            "T = N = K = 8192; bf16, dW in float. Gigabytes that the launches read and write, and those of the products' own matrices.",
            ""] + table(["recipe", "product", "microseconds", "TFLOP/s", "bf16's time over it", "GB moved", "needed", "launches"], cells)


def torch(lines):
    rows = [[l["name"].removeprefix("torch/"), number(l["us"]), number(l["tflops"])] for l in of_kind(lines, "torch") if "us" in l]
    checks = [[l["name"].removeprefix("torch/"), *(number(l[e], "{:.3f}") for e in ("error_y", "error_dx", "error_dw"))]
              for l in of_kind(lines, "torch") if "error_y" in l]
    text = ["## PyTorch", "", "A step of one layer: forward, backward, SGD; T = N = K = 8192. The package has neither experimental kernels nor "
            "cublasLt, which the layer's rows above have.", ""]
    text += table(["step", "microseconds", "TFLOP/s"], rows)
    return text + ["", "Relative to nn.Linear's in bf16:", ""] + table(["results", "Y", "dX", "dW"], checks) if rows else []


def variants(lines):
    """Of a choice: its time, and the library's own before and after it."""
    times, names = {}, []
    for l in lines:
        if "variant" in l and "us" in l:
            choice, turn = l["variant"].split(": ")
            key = (choice, l["name"], l.get("kernel", "") if l.get("chosen", True) else None)
            if key[2] is not None:
                times.setdefault((choice, l["name"]), {})[turn if turn != choice else "other"] = (l["us"], key[2])
    for (choice, name), t in times.items():
        if {"own", "other", "again"} <= t.keys():
            own = (t["own"][0] + t["again"][0]) / 2
            names.append([choice, name, t["own"][1], number(t["own"][0]), number(t["again"][0]), t["other"][1], number(t["other"][0]),
                          share(own, t["other"][0])])
    return ["## Choices", "", "Microseconds. Above 1, the choice is faster than the library's own.", ""] + table(
        ["choice", "row", "own kernel", "own", "again", "kernel", "with the choice", "speed-up"], names) if names else []


def left_out(lines):
    rows = [[l["name"], l["why"]] for l in of_kind(lines, "left_out")]
    return ["## Not measured", ""] + table(["row", "why"], rows) if rows else []


def failures(lines):
    failed = of_kind(lines, "failed")
    if not failed:
        return []
    return ["## Failed", ""] + table(["row", "why"], [[f["name"], f["why"]] for f in failed])


def main():
    *files, page = sys.argv[1:]
    lines = [line for file in files for line in json.loads(Path(file).read_text(encoding="utf-8"))]
    own = [line for line in lines if "variant" not in line or line["kind"] == "device"]
    parts = [section(own) for section in (head, limits, accumulators, predictions, memory_bound, layers, torch, products)]
    parts += [variants(lines), left_out(own), failures(lines)]
    Path(page).write_text("\n\n".join("\n".join(part) for part in parts if part) + "\n", encoding="utf-8")
    print(f"written: {page}")


if __name__ == "__main__":
    main()
