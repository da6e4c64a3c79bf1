#!/usr/bin/env python3
# ufp4 - draws docs/pictures/*.svg from the grids that grid_values.cpp prints on the standard input.
# SPDX-License-Identifier: Apache-2.0
#
#   grid_values | pictures.py [--check] FOLDER
#
# GitHub shows the same picture on a white and on a nearly black page. The colours are readable on both, and nothing has
# a background.
import sys
from pathlib import Path

INK, VALUE, LEANING = "#767b83", "#3b82d6", "#d9700d"
FONT = "font-family=\"-apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif\""


def short(x):
    """.5 for 0.5, at most two decimals."""
    text = f"{x:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "0") else text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


class Picture:
    def __init__(self, width, height, says):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                      f'height="{height}" role="img" {FONT}>', f"<title>{says}</title>"]

    def text(self, x, y, words, size=13, colour=INK, anchor="start", weight="normal"):
        words = str(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
                          f'font-weight="{weight}">{words}</text>')

    def box(self, x, y, width, height, colour, opacity=1.0, stroke=None, radius=0):
        line = f' stroke="{stroke}" stroke-width="1"' if stroke else ""
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}" '
                          f'fill-opacity="{opacity}" rx="{radius}"{line}/>')

    def dot(self, x, y, colour, radius=4.5):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>')

    def line(self, x1, y1, x2, y2, colour=INK, width=1.0):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                          f'stroke-width="{width}"/>')

    def done(self):
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def bins(levels):
    """(value, low, high): numbers between low and high, the midpoints to the neighbours, round to the value."""
    for i, value in enumerate(levels):
        low = (levels[i - 1] + value) / 2 if i else value
        high = (value + levels[i + 1]) / 2 if i + 1 < len(levels) else value
        yield value, low, high


def ruler(picture, levels, x, y, width, low, high, height=26, labels=True):
    """A grid from low to high: bins in two tints, a dot for each value, orange if it is not in the middle of its bin."""
    to_x = lambda v: x + (v - low) / (high - low) * width
    for i, (value, first, last) in enumerate(bins(levels)):
        if last <= low:
            continue
        first, inner = max(first, low), low < value < high
        # a tolerance, since nf4's values are rounded decimals
        leans = inner and abs(value - (first + last) / 2) > 1e-6 * high and value != levels[0] and value != levels[-1]
        picture.box(to_x(first), y, to_x(last) - to_x(first), height, VALUE, 0.26 if i % 2 else 0.12)
        middle = y + height / 2
        if leans:
            picture.line(to_x((first + last) / 2), y + 4, to_x((first + last) / 2), y + height - 4, LEANING, 1.5)
            picture.line(to_x((first + last) / 2), middle, to_x(value), middle, LEANING, 2.5)
        picture.dot(to_x(value), middle, LEANING if leans else VALUE)
        if labels:
            picture.text(to_x(value), y + height + 16, short(value), 12, LEANING if leans else INK, "middle")


def two_grids(grids):
    picture = Picture(760, 196, "E2M1 has bins whose value is not in the middle, at 2 and at 4; all of E1M2's are centred")
    for row, (name, users) in enumerate([("fp4<E2M1>", "NVFP4, MXFP4"), ("fp4<E1M2>", "UFP4: uniform")]):
        levels, y = grids[name], 14 + 66 * row
        picture.text(8, y + 13, name[4:8], 15, weight="bold")
        picture.text(8, y + 30, users, 12)
        ruler(picture, [v for v in levels if v >= 0], 124, y, 616, 0.0, levels[-1])
    picture.text(124, 160, "A shaded bin is all that rounds to the value in it, the block's maximum at the right end.")
    picture.text(124, 180, "Orange: the value lies below its bin's middle (|), so rounding loses magnitude there.", colour=LEANING)
    return picture.done()


def all_grids(grids):
    picture = Picture(760, 76 * len(grids) + 42, "The grids of every element format and the bins of their values")
    for row, (name, levels) in enumerate(grids.items()):
        y = 12 + 76 * row
        picture.text(8, y + 18, name, 14, weight="bold")
        half = max(abs(levels[0]), levels[-1])
        ruler(picture, levels, 118, y, 620, -half, half, labels=False)
        taken = []  # zero, then from outside in; labels that would overlap are omitted
        for value in sorted(levels, key=lambda v: (v != 0, -abs(v))):
            x = 118 + (value + half) / (2 * half) * 620
            if all(abs(x - other) > 30 for other in taken):
                picture.text(x, y + 42, short(value), 12, anchor="middle")
                taken.append(x)
    y = 76 * len(grids) + 14
    picture.text(8, y, "Every grid is drawn to its largest magnitude, which a block's maximum becomes.")
    picture.text(8, y + 19, "Orange: the value is not in the middle of its bin (|).", colour=LEANING)
    return picture.done()


def block_layout(_):
    picture = Picture(760, 232, "A row of 32 elements in two blocks of 16: two scales, 16 bytes, the even element in the low nibble")
    cell, left = 20.0, 96.0
    for label, y in (("elements", 78), ("codes", 138), ("scales", 34), ("tensor scale", 206)):
        picture.text(8, y, label)
    for block in range(2):
        x = left + block * 16 * cell
        colour = VALUE if block == 0 else LEANING
        picture.box(x + 1, 16, 16 * cell - 2, 26, colour, 0.22, colour, 3)
        picture.text(x + 8 * cell, 34, f"scale of block {block}", 12, INK, "middle")
        for j in range(16):
            k = 16 * block + j
            picture.box(x + j * cell + 1, 60, cell - 2, 26, colour, 0.22 if j % 2 == 0 else 0.08, colour, 2)
            picture.text(x + (j + 0.5) * cell, 78, k, 11, INK, "middle")
            picture.line(x + (j + 0.5) * cell, 86, x + (j + 0.5) * cell, 118, colour, 0.7)
        for byte in range(8):
            bx = x + byte * 2 * cell
            picture.box(bx + 1, 118, 2 * cell - 2, 30, "none", 0, colour, 2)
            picture.line(bx + cell, 120, bx + cell, 146, colour, 0.7)
            picture.text(bx + 0.5 * cell, 137, "lo", 11, INK, "middle")
            picture.text(bx + 1.5 * cell, 137, "hi", 11, INK, "middle")
            picture.text(bx + cell, 164, f"byte {8 * block + byte}", 9, INK, "middle")
    picture.box(left + 1, 188, 32 * cell - 2, 26, INK, 0.14, INK, 3)
    picture.text(left + 16 * cell, 206, "one float for the whole matrix, in formats with two levels", 12, INK, "middle")
    return picture.done()


PICTURES = {"grids.svg": two_grids, "formats.svg": all_grids, "block.svg": block_layout}


def main(arguments):
    check = arguments[:1] == ["--check"]
    if len(arguments) != 1 + check:
        print("usage: grid_values | pictures.py [--check] FOLDER", file=sys.stderr)
        return 2
    folder, stale = Path(arguments[-1]), 0
    lines = [line.split() for line in sys.stdin]
    grids = {name: [float(v) for v in values] for name, *values in lines}
    for name, draw in PICTURES.items():
        drawn = draw(grids)
        if not check:
            (folder / name).write_text(drawn, encoding="utf-8")
        elif not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != drawn:
            print(f"docs/pictures/{name} is not what the library's grids give: run docs/build.sh --pictures")
            stale += 1
    print(f"{len(PICTURES)} pictures" + (f", {stale} stale" if check else f" in {folder}"))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
