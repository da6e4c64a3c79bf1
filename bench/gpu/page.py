#!/usr/bin/env python3
"""ufp4 - docs/performance-gpu.md from bench.json: page.py BENCH.json PAGE.md

bench.json is an array of lines that the GPU benches print (bench/gpu/measure.hpp): objects with a "kind".
"""
# SPDX-License-Identifier: Apache-2.0
import json
import sys


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


def failures(lines):
    failed = of_kind(lines, "failed")
    if not failed:
        return []
    return ["", "## Failed", ""] + table(["row", "why"], [[f["name"], f["why"]] for f in failed])


def main():
    bench, page = sys.argv[1:]
    with open(bench, encoding="utf-8") as file:
        lines = json.load(file)
    parts = [head(lines), limits(lines), accumulators(lines), memory_bound(lines), products(lines), failures(lines)]
    with open(page, "w", encoding="utf-8") as file:
        file.write("\n\n".join("\n".join(part) for part in parts if part) + "\n")
    print(f"written: {page}")


if __name__ == "__main__":
    main()
