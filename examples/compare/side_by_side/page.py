# ufp4 - writes the tables of docs/side_by_side.md from results.csv.
# SPDX-License-Identifier: Apache-2.0
"""Tables are between the two comment lines of the page; the text around them is written by hand."""

import pathlib

import measure

DATA = {
    "gauss": "Gauss",
    "laplace": "Laplace",
    "t5": "t(5)",
    "outliers": "outliers",
    "silero": "Silero VAD",
    "crepe": "CREPE",
    "resemblyzer": "Resemblyzer",
    "X": "X",
    "W": "W",
    "dY": "dY",
}
# The names of variants of a format.
LABELS = {
    "nvfp4_four_over_six": "nvfp4 4/6, squared",
    "nvfp4_four_over_six_mae": "nvfp4 4/6, absolute",
    "te_nvfp4_four_over_six": "nvfp4 4/6, TE 256",
    "te_nvfp4_four_over_six_448": "nvfp4 4/6, TE 448",
}
# Each integer format has the values of the format beside it with other codes, and so the same results.
TWINS = {"nvint4": "nv_e1m2", "mxint4": "mx_e1m2", "int4_f32": "e1m2_f32"}
# Bits an element where they are not those of storage: a code of 6 bits takes a byte.
BITS = {"mxfp6_e2m3": 6.25, "mxfp6_e3m2": 6.25}
COMPARED_BITS = 4.75  # the best of a column is among the formats of at most so many bits
BEGIN = "<!-- tables: written by examples/compare/side_by_side/run.sh; edit page.py, not this text -->"
END = "<!-- end of tables -->"


def bits_of(preset):
    return BITS.get(preset["name"], preset["bits_per_element"])


def label_of(name):
    return LABELS.get(name, name)


def cell_of(name):
    """The name in a table: that of a preset as code."""
    return LABELS[name].replace("nvfp4", "`nvfp4`") if name in LABELS else f"`{name}`"


def shown(presets):
    """The presets that have a row: 4-bit formats by size, then the references with more bits an element."""
    return [p for p in presets if p["name"] not in TWINS]


class Table:
    """SQNR by format and data."""

    def __init__(self, results):
        self.sqnr = {(r.format, r.data, r.rht, r.search): r.sqnr_db for r in results}

    def best_available(self, name, data, rht, search):
        """With the search where the format takes one, else with default scales."""
        return self.sqnr.get((name, data, rht, search), self.sqnr[(name, data, rht, 0)])

    def check_twins(self):
        for (name, data, rht, search), value in self.sqnr.items():
            if name in TWINS and self.sqnr[(TWINS[name], data, rht, search)] != value:
                raise SystemExit(f"side_by_side: {name} differs from {TWINS[name]} on {data}")

    def markdown(self, presets, rht, search):
        lines = ["| format | bits | " + " | ".join(DATA.values()) + " |", "|---|---:|" + "---:|" * len(DATA)]
        small = [p["name"] for p in presets if bits_of(p) <= COMPARED_BITS]
        best = {d: max(f"{self.best_available(n, d, rht, search):.2f}" for n in small) for d in DATA}
        for preset in presets:
            name = preset["name"]
            cells = []
            for data in DATA:
                text = f"{self.best_available(name, data, rht, search):.2f}"
                cells.append(f"**{text}**" if name in small and text == best[data] else text)
            lines.append(f"| {cell_of(name)} | {bits_of(preset):g} | " + " | ".join(cells) + " |")
        return "\n".join(lines)


HEADINGS = (
    ("Default scales, no transform:", 0, 0),
    ("Default scales, after a random Hadamard transform of each block:", 1, 0),
    ("`mse_search`, no transform:", 0, 1),
    ("`mse_search`, after the transform:", 1, 1),
)


def tables(results, presets):
    table = Table(results)
    table.check_twins()
    parts = [f"{heading}\n\n{table.markdown(shown(presets), rht, search)}" for heading, rht, search in HEADINGS]
    return "\n\n".join(parts)


def with_tables(page, text):
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def write_page(path, results, presets):
    path = pathlib.Path(path)
    path.write_text(with_tables(path.read_text(), tables(results, presets)))
