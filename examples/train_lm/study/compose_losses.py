# ufp4 - the paper's orderings, errors relative to bf16, and the ablation, as tables and a plot.
# SPDX-License-Identifier: Apache-2.0
import claims
import svg
from blocks import LABELS, RUN, Chart, Heading, Table, Text, star
from words import count, p_value, plain, signed, with_interval


def title_of(model):
    return f"{model.name}: {count(model.parameters)} parameters, {count(model.tokens)} tokens"


def orderings(model):
    rows, absent = [], []
    beside = claims.models_beside(claims.is_mixture(model.shape))
    for o in model.orderings:
        if o.label == "no data":
            absent.append(f"`{o.better}` < `{o.worse}`")
            continue
        d = o.difference["train"]
        rows.append(
            [
                f"{o.claim} (`{o.better}` < `{o.worse}`)",
                star(LABELS[o.label], o.exploratory),
                str(d.n),
                with_interval(d),
                p_value(d.p),
                p_value(o.holm),
                plain(2 * d.sd / d.n**0.5 if d.sd is not None else None, 2),
                with_interval(o.difference["valid"], 2),
                signed(o.paper),
            ]
        )
    out = [
        Heading(f"Does the paper's order hold? {title_of(model)}"),
        Text(
            "Difference of the first recipe's loss from the second's, in percent of the second's: below 0 is the"
            ' paper\'s side. p is of "no difference", two-sided; Holm corrects it for'
            f" {len(model.orderings)} orderings, those without data too. 2 SE is two standard errors of the mean: what"
            f" is smaller, these seeds hardly tell from 0. The paper's difference is of its {beside[0]}. Runs: `{RUN} run --only {model.name}.`"
        ),
    ]
    if rows:
        out.append(
            Table(
                f"Orderings of the paper, {model.name}",
                [
                    "the paper finds",
                    "here",
                    "seeds",
                    "difference, % [95%]",
                    "p",
                    "p, Holm",
                    "2 SE, %",
                    "validation, % [95%]",
                    f"paper, {beside[0]}, %",
                ],
                rows,
                2,
            )
        )
    if absent:
        out.append(Text("Without a pair of runs yet: " + ", ".join(absent) + ".", note=True))
    return out


def errors(model):
    rows = [r for r in model.recipes if r.recipe != "bf16" and r.error["train"]]
    out = [Heading(f"BF16-relative loss error, {model.name}", 3)]
    table, beside = [], claims.models_beside(claims.is_mixture(model.shape))
    for r in model.recipes:
        table.append(
            [
                star(r.recipe, r.exploratory),
                claims.ABOUT.get(r.recipe, ""),
                str(r.seeds),
                plain(r.loss["train"].mean if r.loss["train"] else None, 4),
                with_interval(r.error["train"]),
                with_interval(r.error["valid"]),
            ]
            + [plain(claims.REPORTED_ERROR[paper].get(r.recipe), 3) for paper in beside]
            + ([str(r.diverged)] if any(x.diverged for x in model.recipes) else [])
        )
    shown = Table(
        f"Loss and its error relative to bf16, {model.name}",
        ["recipe", "", "seeds", "loss, nats a byte", "error, % [95%]", "validation, %"]
        + [f"paper, {paper}, %" for paper in beside]
        + (["diverged"] if any(x.diverged for x in model.recipes) else []),
        table,
        2,
    )
    if not rows:
        return out + [Text("No recipe has a seed in common with bf16 yet."), shown]
    ends = [v for r in rows for i in [r.error["train"]] for v in ((i.mean,) if i.low is None else (i.low, i.high))]
    named = [(len(rows) - 1 - k, star(r.recipe, r.exploratory)) for k, r in enumerate(rows)]
    # A recipe with two seeds has an interval that would flatten all others: whiskers are cut at the frame.
    firm = [v for r in rows if r.error["train"].n >= 3 for v in (r.error["train"].low, r.error["train"].high)] or ends
    low, high = min([0.0, *firm, *(r.error["train"].mean for r in rows)]), max(
        [0.0, *firm, *(r.error["train"].mean for r in rows)]
    )
    plot = svg.Plot(
        shown.name,
        (low, high),
        (-0.7, len(rows) - 0.3),
        "loss above bf16 of the same seed, %",
        "",
        height=70 + 30 * len(rows),
        named_y=named,
    )
    plot.vertical(0)
    for (y, _), r in zip(named, rows):
        i = r.error["train"]
        if i.low is not None:
            plot.whisker(y, i.low, i.high, r.recipe)
        plot.dot(i.mean, y, r.recipe, f"{r.recipe}: {with_interval(i)} %, {i.n} seeds")
    return out + [Text("(L − L of bf16) / L of bf16, seed by seed."), Chart(plot.svg(), shown, True)]


def ablation(model):
    if sum(1 for *_, loss in model.ablation if loss is not None) < 3:  # UFP4 with and without RHT stand in every table
        return []
    explore = {r.recipe: r.exploratory for r in model.recipes}
    rows = [
        [
            row,
            star(recipe, explore.get(recipe, False)),
            plain(paper, 5),
            signed(distance) if recipe != "ufp4" else "0",
            with_interval(loss, 4, False),
            "0" if recipe == "ufp4" else with_interval(difference),
        ]
        for row, recipe, paper, distance, difference, loss in model.ablation
    ]
    return [
        Heading(f"The ablation beside the paper's, {model.name}"),
        Text(
            "Distances are from the last row, in percent of its loss: the paper's Dense 1.5B, and ours over paired"
            ' seeds. In ours every row but "no SR" rounds dY stochastically; whether the paper\'s first four do is'
            f" not known to us. Runs: `{RUN} run --only {model.name}.ufp4`"
        ),
        Table(
            f"Ablation, {model.name}",
            ["row", "recipe", "paper's loss", "distance, %", "loss here [95%]", "distance here, % [95%]"],
            rows,
            2,
        ),
    ]
