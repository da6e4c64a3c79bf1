# ufp4 - computes every number of the report from the records of the runs.
# SPDX-License-Identifier: Apache-2.0
"""The HTML report and docs/study.md render the result of find() and compute nothing."""

import collections
import dataclasses
import math

import numpy

import claims
import stats

EFFECT = 0.3  # the loss difference that the study is to resolve, in percent; `power --effect` changes it
FEW_SEEDS = 5  # below this a recipe is exploratory
OPERANDS = ["X", "W", "dY", "W^T", "dY^T", "X^T"]  # of fprop, dgrad, wgrad
RHT_PAIRS = [("E2M1", "e2m1-baseline", "e2m1-rht-all"), ("the uniform grid", "ufp4-rht-none", "ufp4")]
RECIPE_ORDER = ["bf16", "e2m1-baseline", "ufp4", "ufp4-rht-none", "e2m1-rht-all", "nvfp4"]
METRICS = {"train": "train_loss", "valid": "valid_loss"}


def rank(recipe):
    return (RECIPE_ORDER.index(recipe) if recipe in RECIPE_ORDER else len(RECIPE_ORDER), recipe)


@dataclasses.dataclass
class RecipeRow:
    recipe: str
    seeds: int
    diverged: int  # runs whose loss is not finite; they are not part of any mean
    loss: dict  # metric -> Interval of the loss itself
    error: dict  # metric -> Interval of the BF16-relative loss error, percent
    exploratory: bool


@dataclasses.dataclass
class Ordering:
    claim: str
    better: str
    worse: str
    difference: dict  # metric -> Interval of 100 (better - worse) / worse
    label: str  # by the training loss
    exploratory: bool
    holm: float = None
    paper: float = None  # the paper's difference, percent


@dataclasses.dataclass
class Model:
    name: str
    runs: int
    shape: list
    parameters: float
    tokens: float
    steps: float
    flops: float
    recipes: list
    orderings: list
    ablation: list  # (row, recipe, paper's loss, paper's distance from its UFP4 in %, Interval of ours)
    curves: dict  # recipe -> [(step, mean, low, high)]
    distances: dict  # recipe -> [(step, mean, low, high)] percent above bf16
    probes: dict
    amplified: list  # (grid, without, with RHT, {operand: Interval of the attenuation's change, %})
    deepened: list  # (grid, without, with RHT, Interval of the change of the slope over depth, % a layer)
    speed: list


def unit(record):
    """Runs are paired where seed, text and Eigen's instruction set are equal. Another instruction set adds in another order,
    and training amplifies a difference in the last bit to about a percent of the loss."""
    return (record["seed"], record.get("text", ""), record.get("eigen", ""))


def find(all_records, power=None):
    messages = []
    effect = next((p["effect"] for p in power or [] if p.get("effect")), EFFECT)
    by_model = collections.defaultdict(list)
    for record in all_records:
        by_model[record["model"]].append(record)
    for name, group in by_model.items():
        shapes = collections.Counter(tuple(r["shape"]) for r in group)
        usual = shapes.most_common(1)[0][0]
        if len(shapes) > 1:
            dropped = [r["key"] for r in group if tuple(r["shape"]) != usual]
            messages.append(
                f"{name}: {len(dropped)} runs have other arguments than the rest: "
                + ", ".join(dropped)
            )
        by_model[name] = [r for r in group if tuple(r["shape"]) == usual]
    models = [model_of(name, group) for name, group in by_model.items() if any("orderings" in r["uses"] for r in group)]
    models.sort(key=lambda m: (-sum(r.seeds for r in m.recipes), m.name))
    kept = [r for group in by_model.values() for r in group]
    return {
        "models": models,
        "scaling": scaling_of(by_model),
        "messages": messages,
        "records": kept,
        "machines": machines_of(kept),
        "texts": texts_of(kept),
        "eigens": sorted({r.get("eigen", "") for r in kept}),
        "moved": sorted(r["key"] for r in kept if len(machines_of_run(r)) > 1),
        "power": power,
        "effect": effect,
        "achieved": achieved_power(models, by_model, effect),
    }


def losses_of(group, metric):
    """recipe -> {unit: loss}, finite ones."""
    out = collections.defaultdict(dict)
    for r in group:
        if r[METRICS[metric]] is not None:
            out[r["recipe"]][unit(r)] = r[METRICS[metric]]
    return out


def beside_bf16(losses, recipe):
    """{unit: loss} of a recipe: the units that bf16 also has, or all if there are none."""
    mine, reference = losses.get(recipe, {}), losses.get("bf16", {})
    return {u: loss for u, loss in mine.items() if u in reference} or mine


def model_of(name, group):
    losses = {metric: losses_of(group, metric) for metric in METRICS}
    recipes = sorted({r["recipe"] for r in group}, key=rank)
    rows = []
    for recipe in recipes:
        mine = [r for r in group if r["recipe"] == recipe]
        error = {
            m: stats.paired(losses[m].get(recipe, {}), losses[m].get("bf16", {})) if recipe != "bf16" else None
            for m in METRICS
        }
        # The mean loss is over the seeds that bf16 also has, so that the losses of a column can be compared.
        beside = {m: beside_bf16(losses[m], recipe) for m in METRICS}
        seeds = len(beside["train"])
        pairs = seeds if recipe == "bf16" else (error["train"].n if error["train"] else 0)
        rows.append(
            RecipeRow(
                recipe,
                seeds,
                sum(r["train_loss"] is None for r in mine),
                {m: stats.interval(list(beside[m].values())) for m in METRICS},
                error,
                pairs < FEW_SEEDS,
            )
        )
    first = group[0]
    typical = lambda field: next((r[field] for r in group if r.get(field) is not None), None)
    return Model(
        name,
        len(group),
        first["shape"],
        typical("parameters"),
        typical("tokens"),
        typical("steps"),
        typical("flops"),
        rows,
        orderings_of(losses, claims.is_mixture(first["shape"])),
        ablation_of(losses["train"]),
        curves_of(group),
        distances_of(group),
        probes_of(group),
        amplified_of(group),
        deepened_of(group),
        speed_of(group, recipes),
    )


def orderings_of(losses, moe):
    out = []
    for claim, better, worse in claims.ORDERINGS:
        difference = {m: stats.paired(losses[m].get(better, {}), losses[m].get(worse, {})) for m in METRICS}
        n = difference["train"].n if difference["train"] else 0
        out.append(
            Ordering(
                claim,
                better,
                worse,
                difference,
                stats.verdict(difference["train"]),
                n < FEW_SEEDS,
                paper=claims.paper_difference(better, worse, moe),
            )
        )
    p_values = [o.difference["train"].p if o.difference["train"] else None for o in out]
    for ordering, p in zip(out, stats.holm(p_values, len(out))):
        ordering.holm = p
    return out


def ablation_of(losses):
    full = dict((recipe, loss) for _, recipe, loss in claims.ABLATION)["ufp4"]
    return [
        (
            row,
            recipe,
            paper,
            100 * (paper - full) / full,
            stats.paired(losses.get(recipe, {}), losses.get("ufp4", {})) if recipe != "ufp4" else None,
            stats.interval(list(beside_bf16(losses, recipe).values())),
        )
        for row, recipe, paper in claims.ABLATION
    ]


# ---- over training


def _point(step, values):
    """(step, mean, low, high). The interval of two seeds is 25 standard errors wide, too wide for a plot, and left out."""
    got = stats.interval(values)
    return (step, got.mean, got.low, got.high) if got.n > 2 else (step, got.mean, got.mean, got.mean)


def curves_of(group):
    out, losses = {}, losses_of(group, "train")
    for recipe in sorted({r["recipe"] for r in group}, key=rank):
        at, beside = collections.defaultdict(list), beside_bf16(losses, recipe)
        for r in group:
            if r["recipe"] == recipe and unit(r) in beside:
                for step, loss in r["log"]["train"]:
                    if loss is not None:
                        at[step].append(loss)
        most = max(map(len, at.values()), default=0)
        out[recipe] = [_point(step, at[step]) for step in sorted(at) if len(at[step]) == most]
    return out


def distances_of(group):
    """Percent above bf16 of the same seed, step by step."""
    reference = {(unit(r), step): loss for r in group if r["recipe"] == "bf16" for step, loss in r["log"]["train"]}
    out = {}
    for recipe in sorted({r["recipe"] for r in group} - {"bf16"}, key=rank):
        at = collections.defaultdict(list)
        for r in group:
            if r["recipe"] == recipe:
                for step, loss in r["log"]["train"]:
                    base = reference.get((unit(r), step))
                    if loss is not None and base:
                        at[step].append(100 * (loss - base) / base)
        most = max(map(len, at.values()), default=0)
        if most:
            out[recipe] = [_point(step, at[step]) for step in sorted(at) if len(at[step]) == most]
    return out


# ---- quantization errors inside the model


def probes_of(group):
    """recipe -> means over seeds of the probes, and the slope of the residual stream's log attenuation per layer."""
    out = {}
    for recipe in sorted({r["recipe"] for r in group} - {"bf16"}, key=rank):
        probes = [r["probes"] for r in group if r["recipe"] == recipe and r.get("probes")]
        probes = [p for p in probes if p["steps"] == probes[0]["steps"] and p["layers"] == probes[0]["layers"]]
        if not probes:
            continue
        entry = {"seeds": len(probes), "steps": probes[0]["steps"], "layers": probes[0]["layers"]}
        for part, mean in (("operands", _mean_lists), ("by_layer", _mean_tables)):
            entry[part] = {
                o: {
                    name: mean([p[part][o][name] for p in probes if o in p[part]]) for name in ("attenuation", "sqnr_db")
                }
                for o in probes[0][part]
            }
        entry["over_training"] = {
            name: {
                o: stats.interval(
                    [v for v in (_mean(p["operands"][o][name]) for p in probes if o in p["operands"]) if v is not None]
                )
                for o in probes[0]["operands"]
            }
            for name in ("attenuation", "sqnr_db")
        }
        last = [p["residual"] for p in probes if p.get("residual")]
        if last:
            entry["residual"] = {  # a list of layers per step
                name: _mean_tables([p[name] for p in last]) for name in ("attenuation", "sqnr_db")
            }
            entry["slopes"] = [
                stats.interval([s for s in (_slope(entry["layers"], a) for a in seeds) if s is not None])
                for seeds in zip(*(p["attenuation"] for p in last))
            ]
            entry["slope"] = entry["slopes"][-1]
        out[recipe] = entry
    return out


def amplified_of(group):
    """The change of attenuation by the transform, over runs of the same seed."""
    means = {
        (r["recipe"], unit(r)): {o: _mean(p["attenuation"]) for o, p in r["probes"]["operands"].items()}
        for r in group
        if r.get("probes")
    }
    out = []
    for grid, without, with_rht in RHT_PAIRS:
        seeds = [u for recipe, u in means if recipe == without and (with_rht, u) in means]
        change = {}
        for o in OPERANDS:
            pairs = [(means[without, u].get(o), means[with_rht, u].get(o)) for u in seeds]
            change[o] = stats.interval([100 * (b - a) for a, b in pairs if a is not None and b is not None])
        if seeds:
            out.append((grid, without, with_rht, change))
    return out


def deepened_of(group):
    """The change of the slope over depth by the transform, at the last probe, over runs of the same seed."""
    slopes = {}
    for r in group:
        residual = (r.get("probes") or {}).get("residual")
        slope = _slope(r["probes"]["layers"], residual["attenuation"][-1]) if residual else None
        if slope is not None:
            slopes[r["recipe"], unit(r)] = slope
    out = []
    for grid, without, with_rht in RHT_PAIRS:
        seeds = [u for recipe, u in slopes if recipe == without and (with_rht, u) in slopes]
        if seeds:
            change = stats.interval([slopes[with_rht, u] - slopes[without, u] for u in seeds])
            out.append((grid, without, with_rht, change))
    return out


def _mean(values):
    kept = [v for v in values if v is not None]
    return sum(kept) / len(kept) if kept else None


def _mean_lists(lists):
    return [_mean(column) for column in zip(*lists)]


def _mean_tables(tables):
    """Means of lists of layers, per step."""
    return [_mean_lists(at) for at in zip(*tables)]


def _slope(layers, attenuation):
    """Percent by which the attenuation changes from a layer to the next: the slope of its logarithm."""
    pairs = [(k, math.log(a)) for k, a in zip(layers, attenuation) if a is not None and a > 0]
    if len(pairs) < 2:
        return None
    return 100 * float(numpy.polyfit([k for k, _ in pairs], [a for _, a in pairs], 1)[0])


def speed_of(group, recipes):
    """(recipe, Interval of tokens/s, share in quantize, share in GEMM), for runs on the most frequent machine only."""
    usual = collections.Counter(r["machine"].get("cpu", "") for r in group).most_common(1)[0][0]
    out = []
    for recipe in recipes:
        mine = [r for r in group if r["recipe"] == recipe and r["machine"].get("cpu", "") == usual]
        rates = [r["tokens"] / r["seconds"] for r in mine if r["tokens"] and r["seconds"]]
        if rates:
            out.append(
                (
                    recipe,
                    stats.interval(rates),
                    _mean([r["share_quantize"] for r in mine]),
                    _mean([r["share_gemm"] for r in mine]),
                )
            )
    return out


# ---- over compute


def scaling_of(by_model):
    """recipe -> compute and losses of its sizes, and the fit if there are four or more."""
    sizes = sorted(
        (
            (group[0]["flops"], name)
            for name, group in by_model.items()
            if any("scaling" in r["uses"] for r in group) and group[0]["flops"]
        )
    )
    out = {"sizes": [(name, flops) for flops, name in sizes], "recipes": {}}
    losses = {name: losses_of(by_model[name], "train") for _, name in sizes}
    for recipe in sorted({recipe for by in losses.values() for recipe in by}, key=rank):
        have = [(flops, name) for flops, name in sizes if losses[name].get(recipe)]
        if len(have) < 2:
            continue
        mine = {name: losses[name][recipe] for _, name in have}
        units = complete_units(losses, [name for _, name in have])
        if units & set.intersection(*map(set, mine.values())):
            mine = {name: {u: loss for u, loss in by.items() if u in units} for name, by in mine.items()}
        units = sorted({u for by in mine.values() for u in by})
        by_seed = {u: [mine[name].get(u) for _, name in have] for u in units}
        compute = [flops for flops, _ in have]
        out["recipes"][recipe] = {
            "compute": compute,
            "units": units,
            "models": [name for _, name in have],
            "fit": stats.scaling_law(compute, by_seed),
            "loss": [stats.interval(list(mine[name].values())) for _, name in have],
            "error": [stats.paired(mine[name], losses[name].get("bf16", {})) for _, name in have],
        }
    reference = out["recipes"].get("bf16")
    for entry in out["recipes"].values():
        entry["against"] = stats.compare_fits(entry, reference) if reference and entry is not reference else None
    return out


def complete_units(losses, names):
    """The units that every recipe with all of these sizes has, so that fits use the same seeds and can be compared."""
    recipes = [set(losses[name]) for name in names]
    shared = [set(losses[name][recipe]) for recipe in set.intersection(*recipes) for name in names]
    return set.intersection(*shared) if shared else set()


# ---- number of seeds


def achieved_power(models, by_model, effect):
    """The number of seeds from the study's own runs: model -> Power of (ufp4 - e2m1-baseline)."""
    out = {}
    for name in [m.name for m in models]:
        losses = losses_of(by_model[name], "train")
        _, differences = stats.relative_differences(losses.get("ufp4", {}), losses.get("e2m1-baseline", {}))
        if len(differences) >= 2:
            out[name] = stats.power(differences, effect)
    return out


def machines_of_run(record):
    """(processor, compiler, commit) of each machine that ran a part of it."""
    parts = record.get("machines") or [record["machine"]]
    return list(dict.fromkeys(tuple(m.get(k, "unknown") for k in ("cpu", "compiler", "commit")) for m in parts))


def machines_of(records):
    """Each machine with the number of runs of which it ran a part or all."""
    counts = collections.Counter(m for r in records for m in machines_of_run(r))
    return [(*key, n) for key, n in counts.most_common()]


def texts_of(records):
    """(source, training bytes, validation bytes, hash, runs) of every text."""
    runs = collections.defaultdict(list)
    for r in records:
        runs[r.get("text", "")].append(r)
    rows = []
    for name, group in runs.items():
        sources = sorted({r["text_source"] for r in group if r.get("text_source")})
        rows.append((", or ".join(sources), *(group[0].get("text_bytes") or [None, None]), name, len(group)))
    return sorted(rows, key=lambda row: (-row[-1], row[3]))
