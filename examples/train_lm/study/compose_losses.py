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
    shown = {label: sum(o.label == label for o in model.orderings) for label in LABELS}
    out = [
        Heading(f"Does the paper's order hold? {title_of(model)}"),
        Text(
            "Question: for each pair of recipes the paper reports which one has the lower loss. Does it have the lower "
            "loss here?"
        ),
        Text(
            "Method: the difference is the loss of the first recipe minus the loss of the second, in percent of the "
            "second, over runs of the same seed. A negative difference agrees with the paper. Brackets are a 95% "
            'interval over seeds. p is the probability of a difference at least this large if there is none (two-sided '
            f"paired t test). Holm's correction of p is for all {len(model.orderings)} orderings, including those "
            "without data. 2 SE is two standard errors of the mean: these seeds do not resolve a smaller difference."
        ),
        Text(
            f"Result: {shown['confirmed']} confirmed, {shown['reversed']} reversed, {shown['unresolved']} unresolved, "
            f"{shown['no data']} without data."
        ),
        Text(
            f"Limits: the paper's difference is of its model {beside[0]}, of another size and trained on another text. "
            f"Orderings marked * have fewer than 5 seeds. Command: `{RUN} run --only {model.name}.`"
        ),
    ]
    if rows:
        out.append(
            Table(
                f"Orderings of the paper, {model.name}",
                [
                    "result of the paper",
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
        out.append(Text("Pairs without runs: " + ", ".join(absent) + ".", note=True))
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
        ["recipe", "description", "seeds", "loss, nats per byte", "error, % [95%]", "validation, %"]
        + [f"paper, {paper}, %" for paper in beside]
        + (["diverged"] if any(x.diverged for x in model.recipes) else []),
        table,
        2,
    )
    if not rows:
        return out + [Text("No recipe has a run with a seed of bf16."), shown]
    ends = [v for r in rows for i in [r.error["train"]] for v in ((i.mean,) if i.low is None else (i.low, i.high))]
    named = [(len(rows) - 1 - k, star(r.recipe, r.exploratory)) for k, r in enumerate(rows)]
    # The interval of two seeds is so wide that it would hide the others: whiskers are cut at the frame.
    firm = [v for r in rows if r.error["train"].n >= 3 for v in (r.error["train"].low, r.error["train"].high)] or ends
    low, high = min([0.0, *firm, *(r.error["train"].mean for r in rows)]), max(
        [0.0, *firm, *(r.error["train"].mean for r in rows)]
    )
    plot = svg.Plot(
        shown.name,
        (low, high),
        (-0.7, len(rows) - 0.3),
        "loss above that of bf16 with the same seed, %",
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
    return out + [
        Text(
            "Question: how much higher than the loss of bf16 is the loss of each recipe? Method: the error is "
            "100 (L − L of bf16) / L of bf16 for runs of the same seed; the table has its mean and 95% interval, for the "
            "training loss and for the validation loss. The last columns are the errors that the paper reports."
        ),
        Chart(plot.svg(), shown, True),
    ]


def ablation(model):
    if sum(1 for *_, loss in model.ablation if loss is not None) < 3:  # every table has UFP4 with and without RHT
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
        Heading(f"The paper's ablation, {model.name}"),
        Text(
            "Question: which GEMMs need the Hadamard transform (RHT), and does stochastic rounding (SR) lower the loss? "
            "Method: every row changes one part of the recipe ufp4, the last row. A distance is the loss of the row minus "
            "the loss of the last row, in percent of the latter: of the paper's Dense 1.5B, and of our paired seeds."
        ),
        Text(
            'Limits: here every row but "no SR" rounds dY stochastically. Whether the first four rows of the paper do is '
            f"not known. Command: `{RUN} run --only {model.name}.ufp4`"
        ),
        Table(
            f"Ablation, {model.name}",
            ["row", "recipe", "loss, paper", "distance, paper, %", "loss here [95%]", "distance here, % [95%]"],
            rows,
            2,
        ),
    ]
