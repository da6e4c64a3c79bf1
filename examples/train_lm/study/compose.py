# ufp4 - the sections of the report in order; its summary, the number of seeds, and the origin of the runs.
# SPDX-License-Identifier: Apache-2.0
from blocks import LABELS, RUN, Heading, Table, Text
from compose_inside import shrinkage
from compose_losses import ablation, errors, orderings
from compose_training import curves, scaling, speed
from words import command, plain, signed

FIRST_RECIPES = 5  # the recipes of the main comparison


def sections(found):
    out = summary(found)
    for model in found["models"]:
        out += orderings(model) + errors(model)
    for model in found["models"]:
        out += ablation(model)
    for model in found["models"]:
        out += curves(model)
    out += scaling(found["scaling"])
    for model in found["models"]:
        out += shrinkage(model)
    for model in found["models"]:
        out += speed(model)
    return out + power(found) + origin(found)


def summary(found):
    records = found["records"]
    if not records:
        return [
            Heading("Results"),
            Text(f"There is no complete run yet. `{RUN} run` makes them; a report can be made at any time."),
        ]
    diverged = [r["key"] for r in records if r["train_loss"] is None]
    out = [
        Heading("Results"),
        Text(
            f"Complete runs: {len(records)}. Sizes of the scaling law: {len(found['scaling']['sizes'])}."
            + (f" Diverged, and not part of any mean: {', '.join(diverged)}." if diverged else "")
        ),
    ]
    rows = [summary_row(model) for model in found["models"] if any(o.label != "no data" for o in model.orderings)]
    if rows:
        out += [
            Text(
                "Confirmed: the 95% interval of the difference is entirely on the paper's side of 0. Reversed: it is "
                "entirely on the other side. Unresolved: it contains 0. In parentheses: orderings with at least 5 seeds."
            ),
            Table(
                "Orderings of the paper, by model",
                ["model", "runs", "orderings", "confirmed", "reversed", "unresolved", "no data", "p (Holm) below 0.05"],
                rows,
            ),
        ]
    return out + [Text("Recipes and orderings marked * are exploratory: they have fewer than 5 seeds.", note=True)]


def summary_row(model):
    """How many of the paper's orderings have each label; p (Holm): of those confirmed or reversed."""
    by = {name: [o for o in model.orderings if o.label == name] for name in LABELS}
    shown = lambda group: f"{len(group)} ({sum(not o.exploratory for o in group)})"
    significant = sum(o.holm is not None and o.holm < 0.05 for o in by["confirmed"] + by["reversed"])
    return [
        model.name,
        str(model.runs),
        str(len(model.orderings)),
        shown(by["confirmed"]),
        shown(by["reversed"]),
        shown(by["unresolved"]),
        str(len(by["no data"])),
        str(significant),
    ]


def power_messages(p):
    """p: a pilot of power.json, or a stats.Power as a dictionary."""
    return [
        (
            f"differences ufp4 − e2m1-baseline of {p['pilot_seeds']} paired seeds, % of the loss: "
            + ", ".join(signed(d) for d in p["differences_percent"])
            if p.get("differences_percent")
            else ""
        ),
        f"standard deviation s = {p['sd']:.3f}% (below {p['sd_high']:.3f}% with 80% confidence)",
        (
            f"{p['effect']}% is two standard errors with n = max(5, ⌈(2·{p['sd']:.3f} / {p['effect']})²⌉) ="
            f" {p['seeds']} seeds ({p['seeds_high']} with the upper bound of s)"
        ),
        f"with {p['seeds']} seeds the 95% interval is ±{p['half_width']:.3f}%",
        (
            f"{p['seeds']} seeds of {FIRST_RECIPES} recipes at {p['seconds_a_run']} s per run take {core_hours(p):.1f}"
            " core hours"
            if p.get("seconds_a_run")
            else ""
        ),
    ]


def core_hours(p):
    return p["seeds"] * FIRST_RECIPES * p["seconds_a_run"] / 3600


def power(found):
    out = [Heading("How many seeds")]
    if not found["power"] and not found["achieved"]:
        return out + [Text(f"Not measured yet: `{RUN} power`")]
    out.append(
        Text(
            f"Question: how many seeds resolve a loss difference of {found['effect']:g}%, that is, make it two standard "
            "errors of the mean difference?"
        )
    )
    out.append(
        Text(
            f"Method: n = max(5, ⌈(2 s / {found['effect']:g})²⌉) seeds, where s is the standard deviation of the paired "
            "differences ufp4 − e2m1-baseline in percent of the loss. Before the study, s was measured on small pilot "
            f"runs (`{RUN} power`). The other rows measure it again on the study's own runs. The upper bound of s holds "
            "with 80% confidence."
        )
    )
    rows = []
    pilots = [p for p in found["power"] or [] if p["model"] not in found["achieved"]]
    for p in pilots:
        rows.append(
            [
                p["model"],
                str(p["pilot_seeds"]),
                plain(p["sd"], 3),
                plain(p["sd_high"], 3),
                str(p["seeds"]),
                str(p["seeds_high"]),
                plain(p["half_width"], 3),
                plain(p.get("seconds_a_run"), 1),
                plain(core_hours(p), 1) if p.get("seconds_a_run") else "–",
            ]
        )
    for name, p in found["achieved"].items():
        rows.append(
            [
                name,
                str(p.pilot_seeds),
                plain(p.sd, 3),
                plain(p.sd_high, 3),
                str(p.seeds),
                str(p.seeds_high),
                plain(p.half_width, 3),
                "–",
                "–",
            ]
        )
    out.append(
        Table(
            f"Seeds needed for {found['effect']:g}%",
            [
                "runs",
                "seeds",
                "s, %",
                "upper bound of s, %",
                "seeds needed",
                "with the upper bound",
                "95% half-width with these seeds, %",
                "seconds per run",
                f"core hours for {FIRST_RECIPES} recipes",
            ],
            rows,
        )
    )
    for p in pilots:
        out.append(Text(f"{p['model']}: " + "; ".join(filter(None, power_messages(p))) + ".", note=True))
    return out


def origin(found):
    if not found["records"]:
        return []
    out = [
        Heading("Origin of the runs"),
        Table(
            "Machines",
            ["processor", "compiler", "commit", "runs"],
            [[cpu, compiler, commit, str(n)] for cpu, compiler, commit, n in found["machines"]],
            3,
        ),
    ]
    out.append(
        Table(
            "Texts",
            ["text", "hash", "training bytes", "validation bytes", "runs"],
            [
                [source or "not recorded", name or "–", plain(train, 0), plain(valid, 0), str(n)]
                for source, train, valid, name, n in found["texts"]
            ],
            2,
        )
    )
    if len(found["texts"]) > 1:
        out.append(Text(f"There are {len(found['texts'])} texts. Only runs on the same text are paired."))
    if len(found["eigens"]) > 1:
        out.append(
            Text(
                "Eigen used different instruction sets ("
                + "; ".join(e or "not recorded" for e in found["eigens"])
                + "). Only runs with the same one are paired."
            )
        )
    if found["moved"]:
        out.append(
            Text(
                "Runs begun with one machine, compiler or commit, finished with another, and counted for each: "
                + ", ".join(found["moved"])
                + "."
            )
        )
    if len({m[2] for m in found["machines"]}) > 1:
        out.append(Text("The runs are of more than one commit."))
    out.append(
        Text(
            f"These commands make all numbers: `{RUN} power`, `{RUN} run --jobs $(nproc)`, `{RUN} export`, `{RUN} report "
            "--page docs/study.md`. The last one makes this page from `examples/train_lm/study/results/`. The command of "
            "a run repeats it; its bits do not depend on the number of threads."
        )
    )
    rows = [
        [
            r["key"],
            plain(r["train_loss"], 5),
            plain(r["valid_loss"], 5),
            plain(r["seconds"], 0),
            r["checkpoint_hash"][:12],
            command(r["arguments"], r["key"]),
        ]
        for r in found["records"]
    ]
    out.append(Table("Every run", ["run", "loss", "validation", "seconds", "checkpoint", "command"], rows, 1, True))
    if found["messages"]:
        out.append(Table("Left out", ["reason"], [[s] for s in found["messages"]], 1, True))
    return out
