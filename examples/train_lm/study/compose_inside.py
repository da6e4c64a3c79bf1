# ufp4 - the sections on attenuation and SQNR: by operand, over training and over depth.
# SPDX-License-Identifier: Apache-2.0
import findings
import svg
from blocks import CORE, RUN, Chart, Heading, Table, Text, star
from words import plain, with_half, with_interval

MEASURES = (("attenuation", "attenuation"), ("sqnr_db", "SQNR, dB"))
SLOPE = "slope, % per layer"
NEUTRAL = {"attenuation": 1.0, SLOPE: 0.0}  # the value without shrinkage


def shrinkage(model):
    probes = {r: p for r, p in model.probes.items() if p["operands"] or p.get("residual")}
    if not probes:
        return []
    out = [
        Heading(f"Shrinkage inside the model, {model.name}"),
        Text(
            "Question: does quantization make the operands of the GEMMs smaller on average (shrinkage)? Method: the"
            " attenuation of an operand x with quantized values q is Σxq / Σx², both after the transform. A value below"
            " 1 is shrinkage. SQNR, the signal-to-quantization-noise ratio, is 10 log₁₀(Σx² / Σ(q − x)²) in dB. The"
            " tables have means over training, layers, linear layers and seeds, with 95% half-widths over seeds."
            f" Commands: `{RUN} run --only {model.name}.`, then `{RUN} report`."
        ),
    ]
    shown = [r for r in CORE if r in probes] or list(probes)[:6]
    operands = [o for o in findings.OPERANDS if any(o in p["operands"] for p in probes.values())]
    for what, name, digits in (("attenuation", "Attenuation", 4), ("sqnr_db", "SQNR in dB", 2)) if operands else ():
        rows = [[r] + [_short(p["over_training"][what].get(o), digits) for o in operands] for r, p in probes.items()]
        out += [
            Text(f"{name} by operand:"),
            Table(f"{name} by operand, mean over training ± 95%, {model.name}", ["recipe"] + operands, rows),
        ]
    if model.amplified:
        out += [
            Text(
                "Question: does the transform increase shrinkage? Method: the change of the attenuation, in percent, from"
                " the recipe without RHT in fprop and dgrad to the recipe with it, over runs of the same seed. (Both E2M1"
                " recipes have RHT in wgrad.) A negative change is more shrinkage with RHT."
            ),
            Table(
                f"Change of the attenuation with RHT, % ± 95%, {model.name}",
                ["grid"] + operands + ["more shrinkage"],
                [
                    [f"{grid} (`{without}` → `{with_rht}`)"]
                    + [_short(change[o], 3, True) for o in operands]
                    + [amplified(change, operands)]
                    for grid, without, with_rht, change in model.amplified
                ],
            ),
        ]
    out += [Heading(f"Over depth, {model.name}", 3)] + depth(model, probes, shown)
    out += over_steps(model, probes, shown, operands)
    return out


def amplified(change, operands):
    """The operands whose interval is entirely below 0 or above 0, as text."""
    known = [o for o in operands if change.get(o) is not None and change[o].low is not None]
    below, above = [o for o in known if change[o].high < 0], [o for o in known if change[o].low > 0]
    words = (f"in {', '.join(below)}" if below else "in no operand") if known else "–"
    return words + (f"; less in {', '.join(above)}" if above else "")


def deepened(change):
    if change.low is None:
        return "–"
    return "shrinks more with depth" if change.high < 0 else "shrinks less with depth" if change.low > 0 else "unresolved"


def _short(i, digits=4, sign=False):
    return "–" if i is None else with_half(i.mean, None if i.high is None else i.high - i.mean, digits, sign)


def depth(model, probes, shown):
    out, slopes = [], []
    for r in probes:
        i = probes[r].get("slope")
        if i is not None:
            attenuation = probes[r]["residual"]["attenuation"][-1]
            side = (
                "–"
                if i.low is None
                else "shrinks with depth" if i.high < 0 else "grows with depth" if i.low > 0 else "no trend resolved"
            )
            slopes.append(
                [
                    star(r, i.n < 5),
                    str(i.n),
                    plain(attenuation[0], 4),
                    plain(attenuation[-1], 4),
                    with_interval(i),
                    side,
                ]
            )
    if slopes:
        out += [
            Text(
                "Question: does shrinkage accumulate from layer to layer? Method: the residual stream is the sum to"
                " which every block adds. Its attenuation after each block compares a pass with quantized GEMMs with the"
                " same pass in bf16. If every block shrinks the stream by the same factor, the logarithm of the"
                " attenuation falls along a line; the table has the slope of that line in percent per layer."
            ),
            Table(
                f"Attenuation of the residual stream, last probe, {model.name}",
                ["recipe", "seeds", "first layer", "last layer", "slope, % per layer [95%]", "result"],
                slopes,
            ),
        ]
    if model.deepened:
        out += [
            Text(
                "Question: does shrinkage grow faster with depth under RHT? Method: the change of that slope from the"
                " recipe without RHT in fprop and dgrad to the recipe with it, over runs of the same seed."
            ),
            Table(
                f"Change of the slope with RHT, {model.name}",
                ["grid", "seeds", "change, % per layer [95%]", "with RHT"],
                [
                    [f"{grid} (`{without}` → `{with_rht}`)", str(i.n), with_interval(i), deepened(i)]
                    for grid, without, with_rht, i in model.deepened
                ],
            ),
        ]
    out += chart_of(
        f"Residual stream over training: slope of log attenuation, {model.name}",
        {r: [(s, i.mean) for s, i in zip(probes[r]["steps"], probes[r].get("slopes", [])) if i] for r in shown},
        "step",
        SLOPE,
    )
    have = {r: probes[r] for r in shown if probes[r].get("residual")}
    for what, name in MEASURES:
        last = {r: curve(p["layers"], p["residual"][what][-1]) for r, p in have.items()}
        out += chart_of(f"Residual stream by layer, last probe: {name}, {model.name}", last, "layer", name)
        out += layers_over_training("Residual stream", {r: (p, p["residual"][what]) for r, p in have.items()}, name, model)
    return out


def over_steps(model, probes, shown, operands):
    """Charts of every operand: both measures over training, over depth at the last probe, and over training by layer."""
    out = []
    for o in operands:
        have = {r: probes[r] for r in shown if o in probes[r]["operands"]}
        for what, name in MEASURES:
            over = {r: curve(p["steps"], p["operands"][o][what]) for r, p in have.items()}
            last = {r: curve(p["layers"], p["by_layer"][o][what][-1]) for r, p in have.items()}
            out += chart_of(f"Operand {o} over training: {name}, {model.name}", over, "step", name)
            out += chart_of(f"Operand {o} by layer, last probe: {name}, {model.name}", last, "layer", name)
            out += layers_over_training(f"Operand {o}", {r: (p, p["by_layer"][o][what]) for r, p in have.items()}, name, model)
    return [Heading(f"By operand, {model.name}", 3, in_page=False)] + out if out else []


def layers_over_training(of_what, tables, name, model):
    """One chart per layer. tables: recipe -> (its probes, the measure by step and layer)."""
    out = []
    for at, layer in enumerate(next((p["layers"] for p, _ in tables.values()), [])):
        lines = {r: curve(p["steps"], [layers[at] for layers in table]) for r, (p, table) in tables.items()}
        out += chart_of(f"{of_what} over training, layer {layer}: {name}, {model.name}", lines, "step", name)
    return out


def curve(xs, ys):
    return [(x, y) for x, y in zip(xs, ys) if y is not None]


def chart_of(name, lines, x_name, y_name):
    lines = {r: points for r, points in lines.items() if len(points) > 1}
    return [plain_chart(name, lines, x_name, y_name)] if lines else []


def plain_chart(name, lines, x_name, y_name):
    xs = sorted({x for points in lines.values() for x, _ in points})
    ys = [y for points in lines.values() for _, y in points]
    plot = svg.Plot(
        name, (xs[0], xs[-1]), (min(ys), max(ys)), x_name, y_name, **svg.HALF, ticks_x=xs if x_name == "layer" else None
    )
    if y_name in NEUTRAL:
        plot.horizontal(NEUTRAL[y_name])
    for recipe, points in lines.items():
        plot.curve(points, recipe)
        for x, y in points:
            plot.dot(x, y, recipe, f"{recipe}, {x_name} {x}: {y:.5g}")
    digits = 4 if y_name == "attenuation" else 2
    rows = [
        [r] + [next((plain(y, digits) for at, y in points if at == x), "–") for x in xs] for r, points in lines.items()
    ]
    return Chart(
        svg.legend(lines) + plot.svg(), Table(name, ["recipe"] + [f"{x_name} {x}" for x in xs], rows, folded=True)
    )
