# ufp4 - the sections on losses over steps and over compute, and on speed.
# SPDX-License-Identifier: Apache-2.0
import stats
import svg
from blocks import CORE, RUN, Chart, Heading, Table, Text
from words import count, percent, plain, with_half, with_interval


def thinned(points, most=10):
    if len(points) <= most:
        return points
    return [points[round(k * (len(points) - 1) / (most - 1))] for k in range(most)]


def curve_chart(name, curves, y_name, zero=False, skip=0.0):
    """curves: recipe -> [(step, mean, low, high)]; skip: the share of the first steps that are not drawn."""
    last = max(points[-1][0] for points in curves.values())
    curves = {r: [p for p in points if p[0] >= skip * last] for r, points in curves.items()}
    curves = {r: points for r, points in curves.items() if len(points) > 1}
    if not curves:
        return None
    means = [p[1] for points in curves.values() for p in points]
    spread = max(means) - min(means)
    low = max(min(p[2] for points in curves.values() for p in points), min(means) - 0.35 * spread)
    high = min(max(p[3] for points in curves.values() for p in points), max(means) + 0.35 * spread)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    first = min(points[0][0] for points in curves.values())
    plot = svg.Plot(name, (first, last), (low, high), "step", y_name, **svg.HALF)
    if zero:
        plot.horizontal(0)
    for recipe, points in curves.items():
        plot.band([(s, lo, hi) for s, _, lo, hi in points], recipe)
    for recipe, points in curves.items():
        plot.curve([(s, m) for s, m, _, _ in points], recipe)
        for s, m, _, _ in points[::8] + points[-1:]:
            plot.dot(s, m, recipe, f"{recipe}, step {s}: {m:.4g}")
    steps = [p[0] for p in thinned(max(curves.values(), key=len))]
    rows = [
        [recipe] + [next((plain(m, 3) for at, m, _, _ in points if at == s), "–") for s in steps]
        for recipe, points in curves.items()
    ]
    table = Table(name, ["recipe"] + [f"step {s}" for s in steps], rows, folded=True)
    return Chart(svg.legend(curves) + plot.svg(), table)


def curves(model):
    chosen = lambda by: {r: by[r] for r in CORE if r in by and len(by[r]) > 1}
    out = []
    for by, name, y_name, zero, skip in (
        (chosen(model.curves), f"Training loss, mean over seeds, {model.name}", "loss, nats per byte", False, 0.1),
        (chosen(model.distances), f"Loss above that of bf16 with the same seed, {model.name}", "above bf16, %", True, 0.15),
    ):
        chart = curve_chart(name, by, y_name, zero, skip) if by else None
        if chart:
            out.append(chart)
    return (
        [
            Heading(f"Over training, {model.name}", in_page=False),
            Text(
                "A point is the mean loss of one fortieth of the run, over seeds. Bands are 95% intervals where there are"
                " at least 3 seeds, cut at the frame. The first steps, in which the loss falls steeply, are not drawn.",
                in_page=False,
            ),
        ]
        + out
        if out
        else []
    )


def scaling_plot(found):
    """Needs a recipe with two sizes."""
    losses = [i for e in found["recipes"].values() for i in e["loss"] if i]
    c_all = [c for e in found["recipes"].values() for c in e["compute"]]
    y = [i.mean for i in losses]
    plot = svg.Plot(
        "Loss against training compute",
        (min(c_all), max(c_all)),
        (min(y), max(y)),
        "training compute, FLOP",
        "loss, nats per byte",
        log_x=True,
    )
    for recipe, e in found["recipes"].items():
        low, high = min(e["compute"]), max(e["compute"])
        if e["fit"]:
            xs = [low * (high / low) ** (k / 60) for k in range(61)]
            plot.curve(list(zip(xs, stats.power_law_at(e["fit"], e["compute"], xs))), recipe)
        for c, i in zip(e["compute"], e["loss"]):
            if i.low is not None:
                plot.stem(c, i.low, i.high, recipe)
            plot.dot(c, i.mean, recipe, f"{recipe}: {i.mean:.4f} at {c:.2e}, {i.n} seeds")
    return plot


def scaling(found):
    out = [Heading("Scaling law")]
    if not found["recipes"]:
        return out + [
            Text(
                "No recipe has two sizes yet. A fit of three unknowns needs at least four: "
                f"`{RUN} run --only scale- --only micro.`"
            )
        ]
    fits = {r: e for r, e in found["recipes"].items() if e["fit"]}
    most = max(len(e["compute"]) for e in found["recipes"].values())
    if not fits:
        out.append(Text(f"There are {most} sizes: too few for a fit of loss = E + A·(C/C₀)⁻ᵇ, which needs four."))
    else:
        sizes = max(e["fit"]["sizes"] for e in fits.values())
        seeds = min(e["fit"]["seeds"] for e in fits.values())
        out.append(
            Text(
                "Question: how does the loss depend on the training compute, and how much compute would bf16 need for the"
                f" loss of a 4-bit recipe? Method: loss = E + A·(C/C₀)⁻ᵇ is fitted to {sizes} sizes by least squares of"
                " the relative residuals. C is the training compute in FLOP; C₀ is the geometric mean of C over the"
                " sizes; E is the loss for unlimited compute; A is the excess over E at C₀; b is the exponent."
            )
        )
        out.append(
            Text(
                "± is a 95% half-width from a bootstrap over seeds. A seed is drawn with all of its sizes, and only seeds"
                f" that have every size are used. The half-width is widened by Student's t for {seeds} seeds. The"
                " differences from bf16 use the same draws. The last column is the compute with which the curve of bf16"
                " reaches the recipe's loss at the largest size, as a share of that size's compute."
            )
        )
        out.append(
            Text(
                "Limits: the intervals contain the variation between seeds. They do not contain the error of the"
                f" power law itself: {sizes} sizes and three unknowns leave {sizes - 3}"
                f" degree{'s' if sizes != 4 else ''} of freedom to test it. Commands:"
                f" `{RUN} run --only scale- --only micro.`, then `{RUN} report`."
            )
        )
        if any(e["fit"]["at_edge"] for e in fits.values()):
            out.append(
                Text(
                    "A ! after b: b is at the edge of the search, 0.01 to 3, or E is 0. The losses of these sizes do "
                    "not determine E and b separately."
                )
            )
    rows = []
    for recipe, e in found["recipes"].items():
        f, against = e["fit"], e["against"] or {}
        pair = lambda name, digits=3: with_half(*against[name], digits, True) if against.get(name) else "–"
        rows.append(
            [recipe, str(len(e["compute"]))]
            + (
                [
                    with_half(f["E"], f["half"].get("E")),
                    with_half(f["A"], f["half"].get("A")),
                    with_half(f["b"], f["half"].get("b")) + (" !" if f["at_edge"] else ""),
                    f"{100 * f['residual']:.2f}%",
                    pair("E"),
                    pair("b"),
                    with_half(*against["compute"]) if against.get("compute") else "–",
                ]
                if f
                else ["too few sizes"] + ["–"] * 6
            )
        )
    fit_table = Table(
        "Fits of the scaling law",
        ["recipe", "sizes", "E", "A", "b", "residual, rms", "E − E of bf16", "b − b of bf16", "compute of bf16"],
        rows,
    )
    plot = scaling_plot(found)
    by_size = [
        [name, f"{flops:.2e}".replace("e+", "e")]
        + [_of(found["recipes"][r], name, "loss") for r in found["recipes"]]
        + [_of(found["recipes"][r], name, "error") for r in found["recipes"] if r != "bf16"]
        for name, flops in found["sizes"]
    ]
    size_table = Table(
        "Loss by size",
        ["model", "FLOP"]
        + list(found["recipes"])
        + [f"{r}, % above bf16 [95%]" for r in found["recipes"] if r != "bf16"],
        by_size,
    )
    return out + [Chart(svg.legend(found["recipes"]) + plot.svg(), size_table, True), fit_table]


def _of(entry, model, what):
    if model not in entry["models"]:
        return "–"
    found = entry[what][entry["models"].index(model)]
    return plain(found.mean, 4) if what == "loss" else with_interval(found)


def speed(model):
    if not model.speed:
        return []
    rows = [[r, with_interval(i, 0, False), percent(q), percent(g)] for r, i, q, g in model.speed]
    table = Table(f"Speed, {model.name}", ["recipe", "tokens/s on one core [95%]", "share of quantize", "share of GEMM"], rows)
    top = max(i.mean for _, i, _, _ in model.speed)
    named = [(len(model.speed) - 1 - k, r) for k, (r, *_) in enumerate(model.speed)]
    plot = svg.Plot(
        table.name,
        (0, 1),
        (-0.7, len(named) - 0.3),
        "share of the time: quantize, GEMM, other",
        "",
        height=70 + 30 * len(named),
        named_y=named,
        ticks_x=[0, 0.25, 0.5, 0.75, 1],
    )
    for (y, recipe), (_, i, q, g) in zip(named, model.speed):
        q, g = q or 0.0, g or 0.0
        plot.bar(0, q, y, "bar-quantize", f"{recipe}: quantize {percent(q)}")
        plot.bar(q, min(1, q + g), y, "bar-gemm", f"{recipe}: GEMM {percent(g)}")
        plot.bar(min(1, q + g), 1, y, "bar-rest", f"{recipe}: other {percent(max(0, 1 - q - g))}")
    key = (
        '<ul class="legend"><li><i class="key bar-quantize"></i>quantize</li><li><i class="key bar-gemm"></i>GEMM</li>'
        '<li><i class="key bar-rest"></i>other</li></ul>'
    )
    return [
        Heading(f"Speed, {model.name}"),
        Text(
            "Question: how fast is training under each recipe, and what share of the time do quantization and GEMMs take?"
            f" Result: the fastest recipe trains at {count(top)} tokens/s. Limits: this processor emulates 4-bit"
            " arithmetic; hardware with 4-bit units has other ratios. Runs at the same time slow each other down."
            f" Command: `{RUN} run --only {model.name}.`; result.json has the seconds and shares of each run."
        ),
        Chart(key + plot.svg(), table, True),
    ]
