# ufp4 - plots as inline SVG, with the colours of the page's style sheet.
# SPDX-License-Identifier: Apache-2.0
"""A recipe has one class everywhere: its colour (Okabe and Ito's palette, told apart with every common colour
blindness), its dash and its marker, so that no plot needs colour to be read. Warm is E2M1, cool is a uniform grid.
"""

import html
import math

CLASSES = {
    "bf16": "r-bf16",
    "e2m1-baseline": "r-e2m1",
    "ufp4": "r-ufp4",
    "ufp4-rht-none": "r-plain",
    "e2m1-rht-all": "r-all",
    "nvfp4": "r-nv",
}
MARKERS = {
    "r-bf16": "square",
    "r-e2m1": "triangle",
    "r-ufp4": "circle",
    "r-plain": "diamond",
    "r-all": "down",
    "r-nv": "cross",
    "r-other": "plus",
}


HALF = {"width": 480, "height": 270}  # the size of each of two plots side by side


def class_of(recipe):
    return CLASSES.get(recipe, "r-other")


def marker(x, y, cls, title=""):
    s = {
        "square": "M-4-4h8v8h-8z",
        "triangle": "M0-5.5L5.2 4H-5.2z",
        "circle": "M-4.6 0a4.6 4.6 0 1 0 9.2 0a4.6 4.6 0 1 0-9.2 0",
        "diamond": "M0-6L5 0L0 6L-5 0z",
        "down": "M0 5.5L5.2-4H-5.2z",
        "cross": "M-4.5-4.5L4.5 4.5M-4.5 4.5L4.5-4.5",
        "plus": "M-5.5 0H5.5M0-5.5V5.5",
    }[MARKERS[cls]]
    tip = f"<title>{html.escape(title)}</title>" if title else ""
    return f'<path class="mark {cls}" transform="translate({x:.1f} {y:.1f})" d="{s}">{tip}</path>'


def legend(recipes):
    items = "".join(
        f'<li><svg viewBox="0 0 34 14" aria-hidden="true"><line class="curve {class_of(r)}" x1="1" y1="7" x2="33" '
        f'y2="7"/>{marker(17, 7, class_of(r))}</svg>{html.escape(r)}</li>'
        for r in recipes
    )
    return f'<ul class="legend">{items}</ul>'


def nice_ticks(low, high, count=5):
    span = high - low
    raw = span / max(1, count)
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low, high):
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    wide = math.log10(high / low) > 1.6
    return [m * 10.0**k for k in decades for m in ((1,) if wide else (1, 2, 5)) if low <= m * 10.0**k <= high]


def label(value):
    if value == 0:
        return "0"
    if abs(value) >= 1e5:
        k = math.floor(math.log10(abs(value)) + 1e-9)
        m = value / 10.0**k
        return (
            (f"{m:.3g}·" if abs(m - 1) > 1e-6 else "")
            + "10"
            + str(k).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
        )
    return f"{value:.5g}".replace("-", "−")


# Of a picture in a file of its own: the same classes as in the page.
FILE_STYLE = (
    "svg{background:#fff}text{font:12px system-ui,sans-serif;fill:#59616d}.name{fill:#14171c}"
    ".gridline{stroke:#e7eaee}.axis{stroke:#59616d}.stem,.curve{fill:none;stroke:#0062b0;stroke-width:2}"
    ".mark{fill:#0062b0}"
    + "".join(
        f".mark.{cls}{{fill:{hue}}}.stem.{cls},.curve.{cls}{{stroke:{hue}}}"
        for cls, hue in (("r-bf16", "#30343b"), ("r-e2m1", "#c2500f"), ("r-plain", "#0a8a6a"), ("r-all", "#b0397f"))
    )
    + ".curve.r-e2m1{stroke-dasharray:7 4}.curve.r-plain{stroke-dasharray:2 4}"
)


def file_of(title, width, height, body):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{html.escape(title)}</title><style>{FILE_STYLE}</style>{body}</svg>\n"
    )


def side_by_side(title, plots, named, columns=2):
    """A picture of plots of one size in rows, below a legend. plots: [(name, Plot)]; named: [(words, recipe of the class)]"""
    columns = min(columns, len(plots))
    width, height = plots[0][1].width, plots[0][1].height + 22
    a_line = max(1, columns * width // 240)  # names beside each other
    top, body = 14 + 20 * math.ceil(len(named) / a_line), []
    for k, (words, recipe) in enumerate(named):
        x, y = 20 + k % a_line * (columns * width - 20) / a_line, 18 + 20 * (k // a_line)
        body.append(f'<path class="curve {class_of(recipe)}" d="M{x:.0f} {y}h34"/>{marker(x + 17, y, class_of(recipe))}')
        body.append(f'<text class="name" x="{x + 42:.0f}" y="{y + 4}">{html.escape(words)}</text>')
    for k, (name, plot) in enumerate(plots):
        x, y = k % columns * width, top + k // columns * height
        if name:
            body.append(f'<text class="name" x="{x + plot.left}" y="{y + 14}">{html.escape(name)}</text>')
        body.append(f'<g transform="translate({x} {y + 18})">{"".join(plot.body)}</g>')
    return file_of(title, columns * width, top + math.ceil(len(plots) / columns) * height, "".join(body))


class Plot:
    """Axes with data coordinates. width and height are of the drawing; the page scales it down where it must."""

    def __init__(self, title, x, y, x_name, y_name, width=640, height=330, log_x=False, ticks_x=None, named_y=None, left=176):
        self.title, self.width, self.height, self.log_x = title, width, height, log_x
        self.left, self.right, self.top, self.bottom = (left if named_y else 62), width - 14, 12, height - 46
        self.x0, self.x1 = self._widen(x, log_x, 0.02)
        self.y0, self.y1 = y if named_y else self._widen(y, False, 0.06)
        self.body = []
        self._axes(x_name, y_name, ticks_x, named_y)

    @staticmethod
    def _widen(span, log, by):
        low, high = span
        if log:
            low, high = math.log(low), math.log(high)
        if high - low <= 1e-12 * max(1.0, abs(low)):
            pad = abs(low) * 0.05 or 0.5
            low, high = low - pad, high + pad
        pad = by * (high - low)
        return (math.exp(low - pad), math.exp(high + pad)) if log else (low - pad, high + pad)

    def px(self, x):
        if self.log_x:
            share = math.log(x / self.x0) / math.log(self.x1 / self.x0)
        else:
            share = (x - self.x0) / (self.x1 - self.x0)
        return self.left + share * (self.right - self.left)

    def py(self, y):
        return self.bottom - (y - self.y0) / (self.y1 - self.y0) * (self.bottom - self.top)

    def _axes(self, x_name, y_name, ticks_x, named_y):
        ticks = ticks_x or (log_ticks(self.x0, self.x1) if self.log_x else nice_ticks(self.x0, self.x1))
        for t in ticks:
            x = self.px(t)
            self.body.append(
                f'<line class="gridline" x1="{x:.1f}" x2="{x:.1f}" y1="{self.top}" y2="{self.bottom}"/>'
                f'<text class="t" x="{x:.1f}" y="{self.bottom + 17}" text-anchor="middle">{label(t)}</text>'
            )
        if named_y:
            for y, name in named_y:
                self.body.append(
                    f'<text class="name" x="{self.left - 10}" y="{self.py(y) + 4:.1f}" text-anchor="end">'
                    f"{html.escape(name)}</text>"
                )
        else:
            for t in nice_ticks(self.y0, self.y1):
                y = self.py(t)
                self.body.append(
                    f'<line class="gridline" x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}"/>'
                    f'<text class="t" x="{self.left - 7}" y="{y + 4:.1f}" text-anchor="end">{label(t)}</text>'
                )
            middle = (self.top + self.bottom) / 2
            self.body.append(
                f'<text class="t" transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">'
                f"{html.escape(y_name)}</text>"
            )
        self.body.append(
            f'<text class="t" x="{(self.left + self.right) / 2:.0f}" y="{self.height - 8}" '
            f'text-anchor="middle">{html.escape(x_name)}</text>'
        )

    def vertical(self, x):
        self.body.append(
            f'<line class="axis" x1="{self.px(x):.1f}" x2="{self.px(x):.1f}" y1="{self.top}" y2="{self.bottom}"/>'
        )

    def horizontal(self, y):
        if self.y0 <= y <= self.y1:
            self.body.append(
                f'<line class="axis" x1="{self.left}" x2="{self.right}" y1="{self.py(y):.1f}" y2="{self.py(y):.1f}"/>'
            )

    def curve(self, points, recipe):
        path = " ".join(f"{self.px(x):.1f},{self.py(y):.1f}" for x, y in points)
        self.body.append(f'<polyline class="curve {class_of(recipe)}" points="{path}"/>')

    def band(self, points, recipe):
        """points: (x, low, high)"""
        there = [f"{self.px(x):.1f},{self.py(min(max(high, self.y0), self.y1)):.1f}" for x, _, high in points]
        back = [f"{self.px(x):.1f},{self.py(min(max(low, self.y0), self.y1)):.1f}" for x, low, _ in reversed(points)]
        self.body.append(f'<polygon class="band {class_of(recipe)}" points="{" ".join(there + back)}"/>')

    def dot(self, x, y, recipe, title=""):
        self.body.append(marker(self.px(x), self.py(y), class_of(recipe), title))

    def whisker(self, y, low, high, recipe):
        a, b, at = self.px(max(low, self.x0)), self.px(min(high, self.x1)), self.py(y)
        self.body.append(
            f'<path class="stem {class_of(recipe)}" d="M{a:.1f} {at:.1f}H{b:.1f}M{a:.1f} {at - 5:.1f}v10M{b:.1f}'
            f' {at - 5:.1f}v10"/>'
        )

    def stem(self, x, low, high, recipe):
        a, b, at = self.py(max(low, self.y0)), self.py(min(high, self.y1)), self.px(x)
        self.body.append(
            f'<path class="stem {class_of(recipe)}" d="M{at:.1f} {a:.1f}V{b:.1f}M{at - 4:.1f} {a:.1f}h8M{at - 4:.1f}'
            f' {b:.1f}h8"/>'
        )

    def bar(self, x0, x1, y, cls, title=""):
        a, b = self.px(x0), self.px(x1)
        self.body.append(
            f'<rect class="{cls}" x="{a:.1f}" width="{max(0, b - a):.1f}" y="{self.py(y) - 8:.1f}" height="16">'
            f"<title>{html.escape(title)}</title></rect>"
        )

    def text(self, x, y, words, dx=8, anchor="start"):
        """dx: away from x, to the left with anchor "end"."""
        at = self.px(x) + (dx if anchor == "start" else -dx)
        place = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.body.append(f'<text class="t" x="{at:.1f}" y="{self.py(y) + 4:.1f}"{place}>{html.escape(words)}</text>')

    def picture(self):
        """A file of its own."""
        return file_of(self.title, self.width, self.height, "".join(self.body))

    def svg(self):
        return (
            f'<div class="plot"><svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{html.escape(self.title)}">{"".join(self.body)}</svg></div>'
        )
