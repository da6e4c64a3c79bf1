# ufp4 - the report's sections in order, its summary, how many seeds it needs and what it was made with.
# SPDX-License-Identifier: Apache-2.0
from blocks import RUN, Heading, Table, Text
from compose_inside import shrinkage
from compose_losses import ablation, errors, orderings
from compose_training import curves, scaling, speed
from words import command, plain, signed

FIRST_RECIPES = 5  # those that the study owes an answer on


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
            Text(
                "There is no complete run yet, so there is nothing to report. "
                f"`{RUN} run` makes them; what exists at any moment is a report."
            ),
        ]
    diverged = [r["key"] for r in records if r["train_loss"] is None]
    models = ", ".join(f"{m.name} ({m.runs} runs)" for m in found["models"]) or "none yet"
    out = [
        Heading("Results"),
        Text(
            f"{len(records)} complete runs. Compared with the paper's orderings: {models}. Sizes for the scaling law: "
            f"{len(found['scaling']['sizes'])}."
            + (f" Diverged, and in no average: {', '.join(diverged)}." if diverged else "")
        ),
    ]
    for model in found["models"]:
        with_data = [o for o in model.orderings if o.label != "no data"]
        if not with_data:
            continue
        by = {name: [o for o in with_data if o.label == name] for name in ("confirmed", "reversed", "unresolved")}
        firm = {name: sum(not o.exploratory for o in group) for name, group in by.items()}
        after = sum(o.holm is not None and o.holm < 0.05 for o in by["confirmed"] + by["reversed"])
        out.append(
            Text(
                f"{model.name}: of the paper's {len(model.orderings)} orderings {len(by['confirmed'])} confirmed, "
                f"{len(by['reversed'])} reversed, {len(by['unresolved'])} unresolved, "
                f"{len(model.orderings) - len(with_data)} without data; with at least 5 seeds: {firm['confirmed']}, "
                f"{firm['reversed']} and {firm['unresolved']}. With Holm's correction for all {len(model.orderings)}, "
                f"p is below 0.05 for {after} of those confirmed or reversed."
            )
        )
    out.append(
        Text(
            "A difference is of the training loss, averaged over the last tenth of the steps, between runs of the "
            "same seed, text and parameters at the start. Brackets are 95% intervals over seeds (Student t). "
            "Confirmed and reversed: the interval lies wholly on the paper's side, or on the other. "
            "* exploratory: fewer than 5 seeds.",
            note=True,
        )
    )
    return out


def power_messages(p):
    """p: a pilot of power.json, or a stats.Power as a dictionary."""
    return [
        (
            f"paired differences ufp4 − e2m1-baseline of {p['pilot_seeds']} seeds, % of the loss: "
            + ", ".join(signed(d) for d in p["differences_percent"])
            if p.get("differences_percent")
            else ""
        ),
        f"standard deviation s = {p['sd']:.3f}% (below {p['sd_high']:.3f}% with 80% confidence)",
        (
            f"two standard errors = {p['effect']}% needs n = max(5, ⌈(2·{p['sd']:.3f} / {p['effect']})²⌉) ="
            f" {p['seeds']} seeds ({p['seeds_high']} at the upper s)"
        ),
        f"with {p['seeds']} seeds the 95% interval is ±{p['half_width']:.3f}%",
        (
            f"{p['seeds']} seeds of {FIRST_RECIPES} recipes at {p['seconds_a_run']} s a run are {core_hours(p):.1f}"
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
            f"Size, steps and seeds are to make a loss difference of {found['effect']:g}% as large as two standard "
            f"errors of the paired mean. Measured on small pilots before the study (`{RUN} power`), and again on the "
            "study's own runs."
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
            f"Seeds for {found['effect']:g}%",
            [
                "runs",
                "seeds",
                "sd s, %",
                "s at 80% confidence",
                "seeds needed",
                "at that s",
                "95% half-width then, %",
                "seconds a run",
                f"core hours, {FIRST_RECIPES} recipes",
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
        Heading("Made with"),
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
            ["text", "hash", "bytes to train on", "to validate on", "runs"],
            [
                [source or "not recorded", name or "–", plain(train, 0), plain(valid, 0), str(n)]
                for source, train, valid, name, n in found["texts"]
            ],
            2,
        )
    )
    if len(found["texts"]) > 1:
        out.append(Text(f"{len(found['texts'])} different texts: runs are paired within a text only."))
    if len(found["eigens"]) > 1:
        out.append(
            Text(
                "Eigen's instructions differ between runs ("
                + "; ".join(e or "not recorded" for e in found["eigens"])
                + "): runs are paired within one of them only."
            )
        )
    if found["moved"]:
        out.append(
            Text(
                "Begun with one machine, compiler or commit and finished with another, and counted for each: "
                + ", ".join(found["moved"])
                + "."
            )
        )
    if len({m[2] for m in found["machines"]}) > 1:
        out.append(Text("Runs of more than one commit are compared."))
    out.append(
        Text(
            f"From nothing to these numbers: `{RUN} power`, `{RUN} run --jobs $(nproc)`, `{RUN} export`, `{RUN} report "
            "--page docs/study.md`. The numbers here are rebuilt from `examples/train_lm/study/results/` by the last. "
            "A single run is remade by its command; it has the same bits with any number of threads."
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
    if found["said"]:
        out.append(Table("Left out", ["why"], [[s] for s in found["said"]], 1, True))
    return out
