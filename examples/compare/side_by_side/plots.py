# ufp4 - the plots of docs/side_by_side.md, from results.csv.
# SPDX-License-Identifier: Apache-2.0
"""side_by_side.svg: the SQNR of each format, a panel for each kind of data.
side_by_side_lead.svg: by how much the uniform grid of nv_e1m2 after the transform leads each other format.
"""

import pathlib

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

import page

matplotlib.rcParams.update(
    {"svg.hashsalt": "ufp4", "svg.fonttype": "none", "font.size": 9, "font.family": ["DejaVu Sans", "sans-serif"]}
)
# Okabe and Ito's colours, told apart with every common colour blindness.
HUES = {"e2m1": "#d55e00", "uniform": "#0072b2", "choice": "#009e73", "exponents": "#cc79a7"}
LABELS = {
    "e2m1": "E2M1",
    "uniform": "uniform grid",
    "choice": "a choice of grids for each block",
    "exponents": "uniform grid with one-bit exponents",
}
OURS = "nv_e1m2"


def family_of(preset):
    if preset["more_grids"]:
        return "choice"
    if preset["exponent_columns"]:
        return "exponents"
    return "uniform" if preset["uniform"] else "e2m1"


def save(figure, path):
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)
    text = pathlib.Path(path).read_text()
    pathlib.Path(path).write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


def draw_panel(axes, table, presets, data):
    for y, preset in enumerate(presets):
        name, hue = preset["name"], HUES[family_of(preset)]
        plain, transformed = (table.best_available(name, data, rht, 0) for rht in (0, 1))
        axes.plot([plain, transformed], [y, y], color=hue, alpha=0.35, linewidth=2, zorder=1)
        axes.plot(plain, y, "o", color=hue, markerfacecolor="white", markersize=5, zorder=2)
        axes.plot(transformed, y, "o", color=hue, markersize=5, zorder=3)
        searched = [table.sqnr.get((name, data, rht, 1)) for rht in (0, 1)]
        if searched[0] is not None:
            axes.plot(max(searched), y, "|", color="black", markersize=9, markeredgewidth=1.4, zorder=4)
    axes.set_title(page.DATA[data], fontsize=10)
    axes.set_yticks(range(len(presets)), [f"{page.label_of(p['name'])}, {page.bits_of(p):g} bits" for p in presets])
    axes.set_ylim(len(presets) - 0.5, -0.5)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def legend_handles():
    def dot(**style):
        return plt.Line2D([], [], linestyle="", markersize=6, **style)

    hues = [plt.Line2D([], [], color=HUES[f], linewidth=4, label=LABELS[f]) for f in HUES]
    return hues + [
        dot(marker="o", color="#555555", markerfacecolor="white", label="without a transform"),
        dot(marker="o", color="#555555", label="after a Hadamard transform of each block"),
        dot(marker="|", color="black", markeredgewidth=1.4, label="with mse_search, the better of the two"),
    ]


def draw_overview(table, presets, path):
    presets = [p for p in presets if page.bits_of(p) <= 6 and p["group"] != "byte"]
    figure, grid = plt.subplots(2, 5, figsize=(13, 8.6), sharey=True)
    for axes, data in zip(grid.flat, page.DATA):
        draw_panel(axes, table, presets, data)
    for axes in grid[1]:
        axes.set_xlabel("SQNR, dB")
    figure.legend(handles=legend_handles(), loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    save(figure, path)


def lead(table, name, data, search):
    ours = table.best_available(OURS, data, 1, search)
    return ours - max(table.best_available(name, data, rht, search) for rht in (0, 1))


def signed(value):
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def draw_lead(table, presets, path):
    names = [p["name"] for p in presets if page.bits_of(p) <= page.COMPARED_BITS and p["name"] != OURS]
    figure, both = plt.subplots(1, 2, figsize=(13, 5.3), sharey=True)
    for axes, search, title in zip(both, (0, 1), ("default scales", "with mse_search, where the format takes it")):
        values = [[lead(table, n, d, search) for d in page.DATA] for n in names]
        axes.pcolormesh(values, cmap="PuOr", vmin=-3, vmax=3)
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                color = "white" if abs(value) > 2 else "black"
                axes.text(x + 0.5, y + 0.5, signed(value), ha="center", va="center", color=color)
        axes.set_title(title, fontsize=10)
        axes.set_xticks(
            [x + 0.5 for x in range(len(page.DATA))],
            page.DATA.values(),
            rotation=35,
            ha="right",
            rotation_mode="anchor",
        )
        axes.set_yticks([y + 0.5 for y in range(len(names))], [page.label_of(n) for n in names])
        axes.tick_params(length=0)
    both[0].invert_yaxis()  # shared
    figure.suptitle(
        f"SQNR of {OURS} after the transform, minus the format's better one of without and with it, in dB", fontsize=11
    )
    figure.tight_layout()
    save(figure, path)


def draw(results, presets, folder):
    table = page.Table(results)
    shown = page.shown(presets)
    draw_overview(table, shown, f"{folder}/side_by_side.svg")
    draw_lead(table, shown, f"{folder}/side_by_side_lead.svg")
