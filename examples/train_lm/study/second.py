# ufp4 - the results of the second design: noise of a pair, verdicts of the orderings, errors of the gradients.
# SPDX-License-Identifier: Apache-2.0
"""sections(records, gradients, first) makes the parts of docs/study_second.md; every number is computed here."""

import collections
import math

import numpy

import claims
import compose_training
import design
import findings
import stats
import svg
import verdicts
import why
import why_training
from blocks import RUN, Heading, Table, Text
from findings import unit
from words import p_value, plain, signed, with_interval

METRICS = {
    "train_loss": "training, last tenth",
    "valid_loss": "held-out text",
    "average_valid_loss": "held-out text, averaged weights",
}
LABELS = {
    "confirmed": "✓ confirmed",
    "reversed": "✗ reversed",
    "equivalent": "= equivalent",
    "undecided": "? undecided",
    "incomplete": "… incomplete",
    "no data": "no data",
}


def losses_of(records, model, metric):
    """recipe -> {unit: loss} of the runs of a model, finite ones."""
    out = collections.defaultdict(dict)
    for r in records:
        if r["model"] == model and r.get(metric) is not None:
            out[r["recipe"]][unit(r)] = r[metric]
    return out


def differences(losses, better, worse, seeds=None):
    """Paired differences in percent; of the given seeds only, if any are."""
    chosen = lambda by: {u: loss for u, loss in by.items() if seeds is None or u[0] in seeds}
    return stats.relative_differences(chosen(losses.get(better, {})), chosen(losses.get(worse, {})))[1]


def sr_losses(records):
    """{(setting, recipe): {unit: loss}} of the trainings with and without SR on dY."""
    return {
        (setting, recipe): by
        for setting in design.SR_SETTINGS
        for recipe, by in losses_of(records, design.sr_setting(setting), design.METRIC).items()
    }


# ---- Noise


def noise(records):
    """(model, metric, Interval of the difference, arguments) of every noise setting that has two pairs."""
    out = []
    models = dict.fromkeys(r["model"] for r in records if "noise" in r["uses"])
    worse, better = design.NOISE_PAIR
    for model in sorted(models):
        first = next(r for r in records if r["model"] == model)
        shape = first["shape"] + ["--from", "TRUNK"] * ("--from" in first["arguments"])
        for metric in METRICS:
            found = stats.interval(differences(losses_of(records, model, metric), better, worse))
            if found and found.n > 1:
                out.append((model, metric, found, shape))
    return out


def noise_section(records):
    rows = [
        [model, METRICS[metric], str(i.n), plain(i.sd, 3), with_interval(i), f"`{' '.join(shape)}`"]
        for model, metric, i, shape in noise(records)
    ]
    if not rows:
        return []
    return [
        Heading("Noise of a pair"),
        Text(
            "The standard deviation s of the paired differences ufp4 − e2m1-baseline, in percent of the loss, by setting "
            f"and by measure. Command: `{RUN} run --design noise`."
        ),
        Table("Noise", ["setting", "loss of", "pairs", "s, %", "mean, % [95%]", "arguments"], rows, 2),
    ]


def onset(first):
    """[(step, standard deviation, correlation with the last part)] of the paired differences of the training loss in the
    first design: means of 15 steps, of which the last is `step`."""
    worse, better = design.NOISE_PAIR
    curves = {r: {} for r in (worse, better)}
    for r in first:
        if r["model"] == "nano-600" and r["recipe"] in curves:
            curves[r["recipe"]][unit(r)] = r["log"]["train"]
    units = sorted(set(curves[worse]) & set(curves[better]))
    if len(units) < 3:
        return []
    steps = [step for step, _ in curves[worse][units[0]]]
    a, b = ([[loss for _, loss in curves[r][u]] for u in units] for r in (better, worse))
    d = 100 * (numpy.array(a) / numpy.array(b) - 1)
    return [
        (step, float(d[:, i].std(ddof=1)), float(numpy.corrcoef(d[:, i], d[:, -1])[0, 1]))
        for i, step in enumerate(steps)
        if step in (30, 60, 90, 120, 150, 180, 240, 300, 450, 600)
    ]


def onset_section(first):
    rows = [[str(step), plain(sd, 2), plain(r, 2)] for step, sd, r in onset(first)]
    if not rows:
        return []
    return [
        Heading("Where the noise begins"),
        Text(
            "The paired differences ufp4 − e2m1-baseline of the training loss in the runs of the first design "
            "(nano-600, 42 seeds): their standard deviation over the seeds at several steps, and their correlation with "
            "the difference at the end. The deviation reaches its final size after 150 to 180 of 600 steps, in which the "
            "loss falls fastest. From step 240 on, a seed mostly keeps its difference: the correlation is above 0.6. So "
            "most of the noise of the first design begins in the first 240 steps, and a common start avoids this part."
        ),
        Table("Onset of the noise", ["step", "s, %", "correlation with step 600"], rows, 1),
    ]


# ---- Orderings


def orderings(records, model="nano", pairs=None):
    """[(claim, better, worse, Verdict)] after the looks that are complete. An ordering without all seeds of the first look
    is "incomplete": its interval is intermediate. Of `pairs` alone the p values are corrected as if the model's other
    orderings had been tested too, with larger p."""
    chosen = design.orderings(model)
    losses = losses_of(records, design.branch(model), design.METRIC)
    by_look, seeds = [], set()
    for look in range(len(design.SEEDS_AT_LOOKS)):
        seeds |= set(design.seeds_of_look(look))
        found = [differences(losses, b, w, seeds) if pairs is None or (b, w) in pairs else [] for _, b, w in chosen]
        complete = [values if len(values) == len(seeds) else None for values in found]
        if look == 0:
            intermediate = found
        elif not any(complete):
            break
        by_look.append([c or before for c, before in zip(complete, by_look[-1])] if look else complete)
    final = verdicts.looks(by_look)
    for place, values in enumerate(intermediate):
        if values and not by_look[0][place]:
            i = stats.interval(values)
            final[place] = verdicts.Verdict(i, verdicts.p_equivalence(i), label="incomplete")
    return [(*o, v) for o, v in zip(chosen, final) if pairs is None or o[1:] in pairs]


def orderings_section(records, model):
    rows, count = [], collections.Counter()
    part, more = ("orderings", "") if model == "nano" else (f"orderings-{model}", f" --model {model}")
    losses = losses_of(records, design.branch(model), design.METRIC)
    for claim, better, worse, v in orderings(records, model):
        count[v.label] += 1
        if v.label == "no data":
            continue
        every = stats.interval(differences(losses, better, worse))
        rows.append(
            [
                f"{claim} (`{better}` < `{worse}`)",
                LABELS[v.label],
                str(v.difference.n),
                with_interval(v.difference),
                with_interval(every) if every.n > v.difference.n else "–",
                p_value(v.holm_difference),
                p_value(v.holm_equivalent),
                signed(claims.paper_difference(better, worse, model == "micro-moe")),
            ]
        )
    if not rows:
        return []
    return [
        Heading(f"Orderings, {model}"),
        Text(
            "The tests are those of the [plan](study_plan.md), which was written before the runs. Result: "
            + ", ".join(f"{n} {label}" for label, n in sorted(count.items()))
            + ". The difference is that of the look that decided, at level 0.025 (after 12 or 24 seeds); beside it, where there are more, "
            + f"that of all seeds. Command: `{RUN} run --design {part}`; of one ordering: `{RUN} ordering BETTER WORSE{more}`."
        ),
        Table(
            f"Orderings, second design, {model}",
            ["result of the paper", "here", "seeds", "difference, % [95%]", "all seeds, % [95%]", "p difference, Holm"]
            + ["p equivalent, Holm", f"paper, {claims.models_beside(model == 'micro-moe')[0]}, %"],
            rows,
            2,
        ),
    ]


# ---- Forks


def fork_effects(records, model="nano"):
    """recipe -> {trunk: [difference from bf16 in percent of each draw]} of the held-out loss."""
    losses = losses_of(records, design.forks(model), design.METRIC)
    reference = {u[0] // 1000: loss for u, loss in losses.get("bf16", {}).items()}
    out = collections.defaultdict(lambda: collections.defaultdict(list))
    for recipe, by in losses.items():
        for (seed, *_), loss in sorted(by.items()):
            if recipe != "bf16" and seed // 1000 in reference:
                out[recipe][seed // 1000].append(100 * (loss / reference[seed // 1000] - 1))
    return out


def fork_differences(effects, better, worse, model="nano"):
    """One value per trunk with all draws, their mean: the draws of a trunk are not independent seeds."""
    a, b = effects.get(better, {}), effects.get(worse, {})
    mean = lambda values: sum(values) / len(values)
    whole = [t for t in sorted(set(a) & set(b)) if len(a[t]) == len(b[t]) == design.FORK_DRAWS[model]]
    return [mean(a[t]) - mean(b[t]) for t in whole]


def label_of(label, checkpoints):
    """The tests at checkpoints have one look, after all of them."""
    return LABELS[label if checkpoints == len(design.GRADIENT_SEEDS) else "incomplete"]


def fork_verdicts(records, model="nano"):
    """[(claim, better, worse, Verdict)] of the orderings after forks; "incomplete" without all checkpoints."""
    effects, chosen = fork_effects(records, model), design.orderings(model)
    found = verdicts.decide([fork_differences(effects, b, w, model) for _, b, w in chosen], verdicts.LEVEL)
    for v in found:
        if v.difference and v.difference.n < len(design.GRADIENT_SEEDS):
            v.label = "incomplete"
    return [(*o, v) for o, v in zip(chosen, found)]


def forks_section(records, model):
    effects = fork_effects(records, model)
    if not effects:
        return []
    part, other = ("forks", "; other recipes: `--design forks-other`") if model == "nano" else (f"forks-{model}", "")
    rows = []
    for recipe in sorted(effects, key=lambda r: sum(map(sum, effects[r].values())) / sum(map(len, effects[r].values()))):
        by = effects[recipe]
        within = [stats.interval(v).sd for v in by.values() if len(v) > 1]
        spread = (sum(s * s for s in within) / len(within)) ** 0.5 if within else None
        means = stats.interval([sum(v) / len(v) for v in by.values()])
        rows.append([recipe, str(means.n), str(sum(map(len, by.values()))), with_interval(means), plain(spread, 3)])
    found = fork_verdicts(records, model)
    compared = [
        [f"{c} (`{b}` < `{w}`)", LABELS[v.label], str(v.difference.n), with_interval(v.difference)]
        + [p_value(v.holm_difference), p_value(v.holm_equivalent)]
        for c, b, w, v in found
        if v.difference
    ]
    return [
        Heading(f"Forks, {model}"),
        Text(
            f"From a checkpoint of bf16 after {design.WARM} steps, {design.FORK_STEPS} steps under each recipe, in which the "
            f"learning rate decays to zero; draws of random signs and bits: {design.FORK_DRAWS[model]}. The effect is the "
            "held-out loss above that of bf16 steps from the same checkpoint, in percent. Intervals are over checkpoints; "
            f"s is the standard deviation of a draw at one checkpoint. Command: `{RUN} run --design {part}`{other}."
        ),
        Table(f"Forks, {model}", ["recipe", "checkpoints", "runs", "effect, % [95%]", "s of a draw, %"], rows),
        Text(f"The orderings by these effects, paired by checkpoint; one look at level 0.05, Holm for {len(found)}."),
        Table(
            f"Fork orderings, {model}",
            ["result of the paper", "forks", "checkpoints", "difference, % [95%]", "p difference, Holm", "p equivalent, Holm"],
            compared,
            2,
        ),
    ]


# ---- Gradients

GEMMS = ("fprop", "dgrad", "wgrad", "all")
MEASURES = ("gain", "bias", "variance", "cosine")
LINEAR = ("qkv", "out", "gate_up", "down")


def gradient_means(rows):
    """{(recipe, gemm): {measure: Interval over trunks}} of the means over the linear layers."""
    by = collections.defaultdict(list)
    for r in rows:
        if r["model"] == design.GRADIENTS and r["parameter"].rsplit(".", 1)[-1] in LINEAR:
            by[r["recipe"], r["gemm"], r["seed"]].append(r)
    means = collections.defaultdict(lambda: collections.defaultdict(dict))
    for (recipe, gemm, seed), some in by.items():
        for name in MEASURES:
            means[recipe, gemm][name][seed] = sum(r[name] for r in some) / len(some)
        means[recipe, gemm]["error"][seed] = sum(r["bias"] + r["variance"] for r in some) / len(some)
    return means


def gradients_section(rows):
    means = gradient_means(rows)
    if not means:
        return []
    table = []
    for recipe in design.GRADIENT_RECIPES:
        for gemm in GEMMS:
            found = means.get((recipe, gemm))
            if found:
                shown = [with_interval(stats.interval(list(found[m].values())), 4, False) for m in MEASURES]
                table.append([recipe, gemm, str(len(found["gain"])), *shown])
    return [
        Heading("Errors of the gradients, nano"),
        Text(
            f"At a checkpoint of bf16 after {design.WARM} steps, for {design.BATCHES} batches, the gradient of every "
            f"linear layer is computed exactly (binary32) and under a recipe with {design.DRAWS} draws of random signs "
            "and random bits; in the GEMM of column 2, the others exact. gain: below 1 where the recipe shrinks the "
            "gradient. bias, variance: squared, relative to the squared norm of the exact gradient. cosine: of one draw. "
            "Values are means over layers and batches; brackets are a 95% interval over checkpoints. Command: "
            f"`{RUN} run --design gradients`."
        ),
        Table("Gradients", ["recipe", "GEMM", "checkpoints", *MEASURES], table, 2),
        *gradient_orderings(means),
        *changes_section(means),
        *by_layer_section(rows),
    ]


def gradient_orderings(means):
    """Which recipe of an ordering has the smaller squared error of the gradient, paired by checkpoint."""
    rows, pairs = [], []
    for claim, better, worse in design.orderings():
        a, b = means.get((better, "all")), means.get((worse, "all"))
        seeds = sorted(set(a["error"]) & set(b["error"])) if a and b else []
        if len(seeds) > 1:
            pairs.append((claim, better, worse, a["error"], b["error"], seeds))
    found = [
        stats.interval([100 * (a[s] - b[s]) / b[s] for s in seeds]) for _, _, _, a, b, seeds in pairs
    ]
    for (claim, better, worse, *_), i, holm in zip(pairs, found, stats.holm([i.p for i in found], len(claims.ORDERINGS))):
        label = "undecided" if holm >= 0.05 else "confirmed" if i.mean < 0 else "reversed"
        rows.append(
            [f"{claim} (`{better}` < `{worse}`)", label_of(label, i.n), str(i.n), with_interval(i, 2), p_value(holm)]
        )
    if not rows:
        return []
    return [
        Heading("Orderings by the error of the gradient", 3),
        Text(
            "The squared relative error (bias + variance, all GEMMs under the recipe) of the first recipe against that of "
            "the second, in percent of the latter; negative agrees with the paper's order. A smaller error of the "
            "gradient need not be a smaller loss."
        ),
        Table("Gradient orderings", ["result of the paper", "gradient", "checkpoints", "difference, %", "p, Holm"], rows, 2),
    ]


# One part of a recipe changed: (change, with it, without it)
CHANGES = [
    ("RHT, E1M2", "ufp4", "ufp4-rht-none"),
    ("RHT, E2M1", "e2m1-rht-all", "e2m1-rht-none"),
    ("SR on dY, E1M2, RHT on all", "ufp4", "ufp4-no-sr"),
    ("SR on dY, E2M1, RHT on wgrad", "e2m1-baseline", "e2m1-no-sr"),
    ("E1M2 for E2M1, RHT on all", "ufp4", "e2m1-rht-all"),
    ("E1M2 for E2M1, no RHT", "ufp4-rht-none", "e2m1-rht-none"),
]


def changes_section(means):
    """What one change does in one GEMM, paired by checkpoint."""
    rows = []
    for change, after, before in CHANGES:
        for gemm in GEMMS:
            a, b = means.get((after, gemm)), means.get((before, gemm))
            seeds = sorted(set(a["error"]) & set(b["error"])) if a and b else []
            if len(seeds) < 2 or all(a["error"][s] == b["error"][s] for s in seeds):  # no change of this GEMM
                continue
            error = stats.interval([100 * (a["error"][s] / b["error"][s] - 1) for s in seeds])
            gain = stats.interval([100 * (a["gain"][s] - b["gain"][s]) for s in seeds])
            rows.append([change, gemm, str(len(seeds)), with_interval(error, 1), with_interval(gain, 2)])
    if not rows:
        return []
    return [
        Heading("What a change does in a GEMM", 3),
        Text(
            "The squared relative error with the change against that without it, in percent of the latter, and the change "
            "of the gain in percentage points; paired by checkpoint. Exploratory: these intervals are not corrected."
        ),
        Table("Changes", ["change", "GEMM", "checkpoints", "squared error, % [95%]", "gain, points [95%]"], rows, 2),
    ]


def by_layer_section(rows):
    by = collections.defaultdict(list)
    for r in rows:
        if r["model"] == design.GRADIENTS and r["gemm"] == "all":
            by[r["recipe"], r["parameter"]].append(r)
    parameters = [p for p in dict.fromkeys(p for _, p in by) if p.rsplit(".", 1)[-1] in LINEAR]
    table = [
        [recipe, *(with_interval(stats.interval([r["gain"] for r in by[recipe, p]]), 3, False) for p in parameters)]
        for recipe in design.GRADIENT_RECIPES
        if by.get((recipe, parameters[0]))
    ]
    return [Table("Gain of the gradient by layer, all GEMMs", ["recipe", *parameters], table, folded=True)]


# ---- Pictures


def forest(title, rows, x_name, limit=math.inf):
    """rows: [(name, Interval, class of recipe)]; the first is at the top. An interval beyond -limit or limit is written and
    not drawn, so that the others keep their scale."""
    beyond = lambda i: i.high < -limit or i.low > limit
    ends = [v for _, i, _ in rows if not beyond(i) for v in (i.low, i.high)] or [-limit, limit]
    ends = [max(-limit, min(limit, v)) for v in ends]
    named = [(len(rows) - 1 - k, name) for k, (name, *_) in enumerate(rows)]
    plot = svg.Plot(
        title,
        (min(0.0, *ends), max(0.0, *ends)),
        (-0.7, len(rows) - 0.3),
        x_name,
        "",
        width=820,
        height=70 + 26 * len(rows),
        named_y=named,
        left=320,
    )
    plot.vertical(0)
    for (y, name), (_, i, recipe) in zip(named, rows):
        if beyond(i):
            left = i.high < 0
            words = f"◂ {with_interval(i, 2)}" if left else f"{with_interval(i, 2)} ▸"
            plot.text(plot.x0 if left else plot.x1, y, words, dx=4, anchor="start" if left else "end")
            continue
        plot.whisker(y, i.low, i.high, recipe)
        plot.dot(i.mean, y, recipe, f"{name}: {with_interval(i)}")
    return plot.picture()


def recipe_class(recipe):
    return "e2m1-baseline" if recipe.startswith("e2m1") else "ufp4"


def forest_of(title, some_verdicts):
    """A forest plot of [(claim, better, worse, Verdict)], or None without an interval. Undecided ones are in another colour."""
    decided = lambda v: "ufp4" if v.label in ("confirmed", "reversed", "equivalent") else "e2m1-baseline"
    rows = [
        (f"{LABELS[v.label][0]} {b} < {w} ({v.difference.n})", v.difference, decided(v))
        for _, b, w, v in some_verdicts
        if v.difference and v.difference.n > 1
    ]
    return rows and forest(title, rows, "difference of the held-out loss, %; left of 0 agrees with the paper", limit=1.0)


def picture_name(kind, model):
    return f"study_{kind}.svg" if model == "nano" else f"study_{kind}_{model}.svg"


def scaling_picture(first):
    """The losses of the first design by training compute, with their fits; None without two sizes."""
    found = findings.find(first)["scaling"]
    named = [(recipe, recipe) for recipe in found["recipes"]]
    title = "Loss against training compute, first design"
    return svg.side_by_side(title, [("", compose_training.scaling_plot(found))], named) if named else None


def pictures(records, gradients, depth=(), first=()):
    """{file name: SVG} of docs/pictures/; only those that have data."""
    out, means = {}, gradient_means(gradients)
    wide = lambda i: i is not None and i.n > 1
    for model in design.MODELS:
        out[picture_name("orderings", model)] = forest_of(
            f"Differences of the held-out loss, {model}", orderings(records, model)
        )
        out[picture_name("forks", model)] = forest_of(
            f"Differences of the held-out loss after forks, {model}", fork_verdicts(records, model)
        )
    errors = [
        (f"{recipe}, {gemm}", stats.interval([100 * e for e in means[recipe, gemm]["error"].values()]), recipe)
        for recipe in ("ufp4", "ufp4-no-sr", "ufp4-rht-none", "e2m1-baseline", "e2m1-rht-all", "e2m1-rht-none")
        for gemm in ("fprop", "dgrad", "wgrad")
        if (recipe, gemm) in means
    ]
    if errors and all(wide(i) for _, i, _ in errors):
        rows = [(name, i, recipe_class(recipe)) for name, i, recipe in errors]
        name = "Squared relative error of the gradient by GEMM"
        out["study_gradients.svg"] = forest(name, rows, "bias + variance, % of the squared norm of the gradient")
    trainings = why_training.forest_rows(sr_losses(records))
    if trainings:
        out["study_sr.svg"] = forest("SR on dY in trainings", trainings, "held-out loss with SR above that without, %")
    out["study_scaling.svg"] = scaling_picture(first)
    return {name: picture for name, picture in {**out, **why.pictures(gradients, depth)}.items() if picture}


def sections(records, gradients, first, depth=()):
    return [
        *onset_section(first),
        *noise_section(records),
        *(block for model in design.MODELS for block in orderings_section(records, model)),
        *(block for model in design.MODELS for block in forks_section(records, model)),
        *gradients_section(gradients),
        *why.sections(gradients, depth),
        *why_training.section(sr_losses(records)),
    ]
