# ufp4 - what a GPU measured of the rows of kernels.py, as the same shares as the predictions.
# SPDX-License-Identifier: Apache-2.0


def shares(lines):
    """(bench name, kernel, limit) -> share, of the lines of a bench.json: against the copy, or cuBLAS in bf16 for the same shape."""
    copy = next((l["gbs"] for l in lines if l["kind"] == "memory" and l["name"] == "copy"), None)
    library = {(l["m"], l["n"], l["k"]): l["tflops"] for l in lines if l["kind"] == "library" and l["type"] == "bf16"}
    found = {}
    for l in lines:
        if l["kind"] == "memory" and copy:
            found[l["name"], None, "memory"] = l["gbs"] / copy
        elif l["kind"] == "gemm":
            if copy:
                found[l["name"], l["kernel"], "memory"] = l["gbs"] / copy
            if (rate := library.get((l["m"], l["n"], l["k"]))):
                found[l["name"], l["kernel"], "cuBLAS bf16"] = l["tflops"] / rate
    return found


def share_of(found, row):
    """Of a Row of kernels.py; None if it was not measured."""
    return found.get((row.bench, None, row.limit), found.get((row.bench, row.table_name, row.limit)))
