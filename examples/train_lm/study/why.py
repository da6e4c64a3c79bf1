# ufp4 - the results of the controlled experiments of the second design: shrinkage over depth, and SR against the batch.
# SPDX-License-Identifier: Apache-2.0
"""docs/study_plan.md states the hypotheses before the runs. The rows are those of results/depth.csv.gz and of
results/gradients.csv.gz.
"""

import collections
import math

import design
import stats
import svg
from blocks import RUN, Heading, Table, Text
from words import plain, with_interval

DEPTH_RECIPES = {
    "ufp4": "E1M2, RHT",
    "ufp4-rht-none": "E1M2, no RHT",
    "e2m1-rht-all": "E2M1, RHT",
    "e2m1-rht-none": "E2M1, no RHT",
}
STACKS = [(stack, channels) for stack in ("chain", "residual") for channels in ("even", "outliers")]
CHANNELS = {"even": "even channels", "outliers": "outliers"}
LINEAR = ("qkv", "out", "gate_up", "down")
# A class of svg.py for each recipe of the figure.
DRAWN = {**{r: r for r in ("ufp4", "ufp4-rht-none", "e2m1-rht-all")}, "e2m1-rht-none": "e2m1-baseline"}


def label_of(holds, fails):
    return "✓ holds" if holds else "✗ does not hold" if fails else "? undecided"


# ---- Depth


def depth_gains(rows):
    """{(stack, channels, recipe): {layers: {draw: gain}}}"""
    out = collections.defaultdict(lambda: collections.defaultdict(dict))
    for r in rows:
        out[r["stack"], r["channels"], r["recipe"]][r["layers"]][r["draw"]] = r["gain"]
    return out


def paired(a, b, difference):
    """An Interval over the draws that both have."""
    return stats.interval([difference(a[d], b[d]) for d in sorted(set(a) & set(b))])


def depth_tests(gains):
    """[(hypothesis, setting, Interval, label)]"""
    at = lambda stack, channels, recipe, layers: gains[stack, channels, recipe][layers]
    most = max(layers for by in gains.values() for layers in by)
    points = lambda a, b: 100 * (a - b)
    below = lambda i: label_of(i.high < 0, i.low > 0)
    out = []
    for recipe, name in DEPTH_RECIPES.items():
        i = paired(
            at("chain", "even", recipe, most), at("chain", "even", recipe, 1), lambda g, one: points(g, one**most)
        )
        label = "= consistent" if i.low <= 0 <= i.high else "✗ does not hold"
        out.append((f"1. the gain after {most} layers is that of one to the power {most}: difference", name, i, label))
    for channels in ("even", "outliers"):
        for e2m1, e1m2, name in (("e2m1-rht-all", "ufp4", "RHT"), ("e2m1-rht-none", "ufp4-rht-none", "no RHT")):
            i = paired(at("chain", channels, e2m1, most), at("chain", channels, e1m2, most), points)
            out.append((f"2. chain, {most} layers: E2M1 − E1M2", f"{channels}, {name}", i, below(i)))
    for stack, channels in STACKS:
        for layers in (1, most):
            i = paired(at(stack, channels, "e2m1-rht-all", layers), at(stack, channels, "e2m1-rht-none", layers), points)
            held = below(i) if channels == "outliers" else "= consistent" if i.low <= 0 <= i.high else "✗ does not hold"
            out.append(("3. E2M1, RHT − no RHT", f"{stack}, {channels}, layers: {layers}", i, held))
    for channels in ("even", "outliers"):
        for recipe, name in DEPTH_RECIPES.items():
            nearer = lambda g, one: 100 * (abs(1 - g) - abs(1 - one**most))
            i = paired(at("residual", channels, recipe, most), at("residual", channels, recipe, 1), nearer)
            words = f"4. residual: |1 − gain after {most}| − |1 − gain of one to the power {most}|"
            out.append((words, f"{channels}, {name}", i, below(i)))
    return out


def depth_section(rows):
    if not rows:
        return []
    gains, draws = depth_gains(rows), len({r["draw"] for r in rows})
    depths = sorted({r["layers"] for r in rows})
    table = []
    for stack, channels in STACKS:
        for recipe, name in DEPTH_RECIPES.items():
            by = gains[stack, channels, recipe]
            shown = [with_interval(stats.interval(list(by[n].values())), 4, False) for n in depths]
            table.append([stack, channels, name, *shown])
    tests = [[words, setting, with_interval(i, 2), label] for words, setting, i, label in depth_tests(gains)]
    parts = collections.defaultdict(list)
    for r in rows:
        if r["layers"] == depths[-1]:
            parts[r["stack"], r["channels"], r["recipe"]].append(r)
    of = lambda some, value: with_interval(stats.interval([value(r) for r in some]), 3, False)
    split = [
        [stack, channels, name, of(some, lambda r: r["cosine"]), of(some, lambda r: r["gain"] / r["cosine"])]
        for stack, channels in STACKS
        for recipe, name in DEPTH_RECIPES.items()
        if (some := parts[stack, channels, recipe])
    ]
    return [
        Heading("Shrinkage over depth"),
        Text(
            "A stack of layers with random weights, once with exact products (y) and once with operands rounded to nearest "
            f"under a recipe (q): the gain ⟨q, y⟩ / ⟨y, y⟩ after 1 to {depths[-1]} layers; means and 95% intervals over "
            f"{draws} draws of weights, inputs and signs. chain: y ← y W; residual: y ← y + V swiglu(W norm(y)). outliers: "
            f"one channel in 16 is 8 times as large. Command: `{RUN} depth`."
        ),
        Table("Depth", ["stack", "channels", "recipe", *(f"after {n}" for n in depths)], table, 3),
        Text("The hypotheses of the [plan](study_plan.md#why-shrinkage-over-depth), in percentage points of the gain."),
        Table("Depth hypotheses", ["hypothesis", "setting", "difference, points [95%]", "here"], tests, 2),
        Text(
            f"The gain is the cosine of q and y times the ratio of their norms, here after {depths[-1]} layers. Where the "
            "norms are equal, a gain below 1 is lost direction and not shrinkage. Exploratory: not part of the plan."
        ),
        Table("Gain by part", ["stack", "channels", "recipe", "cosine", "norm of q / norm of y"], split, 3),
    ]


def depth_picture(rows):
    gains = depth_gains(rows)
    depths = sorted({r["layers"] for r in rows})
    plots = []
    for stack, channels in STACKS:
        found = {
            recipe: [(n, stats.interval(list(gains[stack, channels, recipe][n].values()))) for n in depths]
            for recipe in DEPTH_RECIPES
        }
        ends = [v for line in found.values() for _, i in line for v in (i.low, i.high)]
        name = f"{stack}, {CHANNELS[channels]}"
        plot = svg.Plot(
            name, (depths[0], depths[-1]), (min(ends), max(ends)), "layers", "gain", **svg.HALF, log_x=True, ticks_x=depths
        )
        plot.horizontal(1)
        for recipe, line in found.items():
            plot.curve([(n, i.mean) for n, i in line], DRAWN[recipe])
            for n, i in line:
                plot.stem(n, i.low, i.high, DRAWN[recipe])
                plot.dot(n, i.mean, DRAWN[recipe], f"{DEPTH_RECIPES[recipe]}, {n} layers: {with_interval(i, 4, False)}")
        plots.append((name, plot))
    named = [(name, DRAWN[recipe]) for recipe, name in DEPTH_RECIPES.items()]
    return svg.side_by_side("Gain of quantized products over depth", plots, named)


# ---- The batch

# (format, with SR, without)
SR_PAIRS = [("E1M2, RHT on all", "ufp4", "ufp4-no-sr"), ("E2M1, RHT on wgrad", "e2m1-baseline", "e2m1-no-sr")]


def batch_ratios(gradients):
    """{(sequences, format, gemm): {measure: {seed: value}}}: relative to the variance of the batch, means over the linear
    layers. sr: the squared error that SR adds; systematic: (1 - gain)^2 of rounding to nearest; noise: the variance of the
    batch relative to the squared norm of its gradient."""
    by = collections.defaultdict(lambda: collections.defaultdict(list))
    for r in gradients:
        if r.get("batch_variance") is not None and r["parameter"].rsplit(".", 1)[-1] in LINEAR:
            by[r["model"], r["recipe"], r["gemm"]][r["seed"]].append(r)
    mean = lambda rows, value: sum(map(value, rows)) / len(rows)
    out = {}
    for sequences in design.BATCH_SIZES:
        for name, with_sr, without in SR_PAIRS:
            for gemm in ("dgrad", "wgrad", "all"):
                a, b = (by.get((design.batches(sequences), r, gemm), {}) for r in (with_sr, without))
                found = collections.defaultdict(dict)
                for seed in sorted(set(a) & set(b)):
                    noise = mean(b[seed], lambda r: r["batch_variance"])
                    error = lambda r: r["bias"] + r["variance"]
                    found["sr"][seed] = (mean(a[seed], error) - mean(b[seed], error)) / noise
                    found["systematic"][seed] = mean(b[seed], lambda r: (1 - r["gain"]) ** 2) / noise
                    found["gain"][seed] = mean(b[seed], lambda r: r["gain"])
                    found["noise"][seed] = noise
                if len(found["noise"]) > 1:
                    out[sequences, name, gemm] = found
    return out


def batch_tests(ratios):
    """[(hypothesis, setting, Interval, unit, label)]; ratios of 16x to 1x are means of logarithms over checkpoints.
    "incomplete" without all checkpoints."""
    whole = lambda i, label: label if i.n == len(design.GRADIENT_SEEDS) else "… incomplete"
    return [(words, setting, i, unit, whole(i, label)) for words, setting, i, unit, label in _batch_tests(ratios)]


def _batch_tests(ratios):
    few, *_, many = design.BATCH_SIZES
    out = []
    growth = lambda a, b: math.log(b / a)

    def ratio(name, gemm, measure):
        a, b = (ratios[n, name, gemm][measure] for n in (few, many))
        i = paired(a, b, growth)
        return stats.Interval(i.n, *(math.exp(v) if k in (0, 2, 3) else v for k, v in enumerate((i.mean, i.sd, i.low, i.high))))

    positive = lambda name, gemm, measure: all(v > 0 for n in (few, many) for v in ratios[n, name, gemm][measure].values())
    for name, *_ in SR_PAIRS:
        if (few, name, "wgrad") not in ratios or (many, name, "wgrad") not in ratios:
            continue
        if positive(name, "wgrad", "sr"):
            i = ratio(name, "wgrad", "sr")
            label = label_of(0.5 < i.low and i.high < 2, i.high < 0.5 or i.low > 2)
            out.append(("1. what SR adds, relative to the batch's variance: 16x to 1x", f"wgrad, {name}", i, "ratio", label))
        if name.startswith("E2M1") and positive(name, "wgrad", "systematic"):
            i = ratio(name, "wgrad", "systematic")
            words = "2. the systematic part without SR, relative to the batch's variance: 16x to 1x"
            out.append((words, f"wgrad, {name}", i, "ratio", label_of(i.low > 4, i.high < 4)))
        if name.startswith("E1M2"):
            for n in design.BATCH_SIZES:
                found = ratios.get((n, name, "wgrad"))
                if found:
                    i = paired(found["systematic"], found["sr"], lambda s, sr: 100 * (s - sr))
                    words = "3. the systematic part without SR − what SR adds, % of the batch's variance"
                    out.append((words, f"wgrad, {name}, {n} sequences", i, "%", label_of(i.high < 0, i.low > 0)))
    return out


def batch_section(gradients):
    ratios = batch_ratios(gradients)
    if not ratios:
        return []
    percent = lambda found, measure, digits: with_interval(
        stats.interval([100 * v for v in found[measure].values()]), digits, False
    )
    rows = [
        [name, gemm, str(n), str(len(found["noise"])), percent(found, "noise", 0), percent(found, "sr", 3)]
        + [with_interval(stats.interval(list(found["gain"].values())), 4, False), percent(found, "systematic", 4)]
        for name, *_ in SR_PAIRS
        for gemm in ("dgrad", "wgrad", "all")
        for n in design.BATCH_SIZES
        if (found := ratios.get((n, name, gemm)))
    ]
    tests = [
        [words, setting, with_interval(i, 3, unit == "%"), label] for words, setting, i, unit, label in batch_tests(ratios)
    ]
    return [
        Heading("SR on dY against the noise of the batch"),
        Text(
            f"Gradients at checkpoints of bf16 after {design.WARM} steps of nano, with batches of "
            f"{', '.join(map(str, design.BATCH_SIZES))} sequences of 64 bytes. The variance of a batch's gradient from "
            "batch to batch is estimated from its microbatches. What SR adds is the squared error with SR minus that "
            "with rounding to nearest; the systematic part is (1 − gain)² of rounding to nearest, which no batch averages. "
            f"Means over the linear layers, 95% intervals over checkpoints. Command: `{RUN} run --design batches`."
        ),
        Table(
            "Batches",
            ["format", "GEMM", "sequences", "checkpoints", "variance of the batch, % of its gradient's squared norm"]
            + ["SR adds, % of that variance", "gain to nearest", "systematic part, % of that variance"],
            rows,
            2,
        ),
        Text(
            "The hypotheses of the [plan](study_plan.md#why-sr-on-dy-at-a-small-batch); ratios are geometric means over "
            "checkpoints."
        ),
        Table("Batch hypotheses", ["hypothesis", "setting", "value [95%]", "here"], tests, 2),
    ]


def batch_picture(gradients):
    """What SR adds and what rounding to nearest leaves, relative to the batch's variance, in wgrad; logarithms."""
    ratios, lines = batch_ratios(gradients), []
    for name, with_sr, _ in SR_PAIRS:
        for measure in ("sr", "systematic"):
            some = [(n, ratios[n, name, "wgrad"][measure].values()) for n in design.BATCH_SIZES if (n, name, "wgrad") in ratios]
            if some and all(v > 0 for _, values in some for v in values):
                logs = [(n, stats.interval([math.log10(100 * v) for v in values])) for n, values in some]
                lines.append((name, measure, with_sr, logs))
    if not lines:
        return None
    sizes, ends = list(design.BATCH_SIZES), [v for *_, line in lines for _, i in line for v in (i.low, i.high)]
    kinds = {("ufp4", "sr"): "ufp4", ("ufp4", "systematic"): "ufp4-rht-none", ("e2m1-baseline", "sr"): "e2m1-rht-all"}
    kinds["e2m1-baseline", "systematic"] = "e2m1-baseline"
    plot = svg.Plot(
        "wgrad",
        (sizes[0], sizes[-1]),
        (min(ends), max(ends)),
        "sequences of a batch",
        "log10 of % of the batch's variance",
        height=360,
        log_x=True,
        ticks_x=sizes,
    )
    words = {"sr": "SR adds", "systematic": "systematic part without SR"}
    for name, measure, recipe, line in lines:
        kind = kinds[recipe, measure]
        plot.curve([(n, i.mean) for n, i in line], kind)
        for n, i in line:
            plot.stem(n, i.low, i.high, kind)
            plot.dot(n, i.mean, kind, f"{name}, {words[measure]}, {n} sequences: 10^{plain(i.mean, 2)} %")
    named = [(f"{name[:4]}: {words[measure]}", kinds[recipe, measure]) for name, measure, recipe, _ in lines]
    return svg.side_by_side("What SR adds and what it removes, against the variance of the batch", [("wgrad", plot)], named)


def sections(gradients, depth):
    return [*depth_section(depth), *batch_section(gradients)]


def pictures(gradients, depth):
    out = {"study_depth.svg": depth_picture(depth)} if depth else {}
    batch = batch_picture(gradients)
    return {**out, "study_batch.svg": batch} if batch else out
