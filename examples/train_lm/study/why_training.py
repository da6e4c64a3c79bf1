# ufp4 - SR on dY in trainings with another learning rate and with more steps: losses, hypotheses.
# SPDX-License-Identifier: Apache-2.0
"""docs/study_plan.md states the hypotheses before the runs. `losses`: {(setting, recipe): {unit: held-out loss}}."""

import design
import stats
from blocks import RUN, Heading, Table, Text
from why import SR_PAIRS, label_of
from words import p_value, plain, with_interval

TESTS = 7
NAMES = {"base": "400 steps, 3·10⁻³", "lr": "400 steps, 1·10⁻³", "steps": "1,200 steps, 3·10⁻³"}


def effects(losses):
    """{(setting, format): {unit: D}}: the held-out loss with SR on dY above that without, in percent."""
    out = {}
    for setting in design.SR_SETTINGS:
        for name, with_sr, without in SR_PAIRS:
            a, b = losses.get((setting, with_sr), {}), losses.get((setting, without), {})
            units = sorted(set(a) & set(b))
            if len(units) > 1:
                out[setting, name] = {u: 100 * (a[u] / b[u] - 1) for u in units}
    return out


def tests(found):
    """[(hypothesis, setting, Interval, p after Holm, label)]; all predict a negative difference. "incomplete" without all seeds."""
    formats = [name for name, *_ in SR_PAIRS]
    asked = [("1. D under lr − D under base", name, ("lr", name), ("base", name)) for name in formats]
    asked += [("2. D under steps − D under base", name, ("steps", name), ("base", name)) for name in formats]
    e1m2, e2m1 = formats
    asked += [("3. D of E2M1 − D of E1M2", NAMES[s], (s, e2m1), (s, e1m2)) for s in design.SR_SETTINGS]
    rows = []
    for words, setting, a, b in asked:
        units = sorted(set(found.get(a, {})) & set(found.get(b, {})))
        rows.append((words, setting, stats.interval([found[a][u] - found[b][u] for u in units]) if len(units) > 1 else None))
    holm = stats.holm([i.p if i else None for *_, i in rows], TESTS)
    label = lambda i, p: label_of(p < 0.05 and i.mean < 0, p < 0.05 and i.mean > 0)
    whole = lambda i, words: words if i.n == len(design.NOISE_SEEDS) else "… incomplete"
    return [(w, s, i, p, whole(i, label(i, p))) for (w, s, i), p in zip(rows, holm) if i]


def section(losses):
    found = effects(losses)
    if not found:
        return []
    mean = lambda setting, recipe, units: sum(losses[setting, recipe][u] for u in units) / len(units)
    rows = [
        [NAMES[setting], name, str(len(d)), plain(mean(setting, without, d), 4), with_interval(stats.interval(list(d.values())))]
        for setting in design.SR_SETTINGS
        for name, _, without in SR_PAIRS
        if (d := found.get((setting, name)))
    ]
    verdicts = [[words, setting, str(i.n), with_interval(i), p_value(p), label] for words, setting, i, p, label in tests(found)]
    return [
        Heading("SR on dY, learning rate and number of steps"),
        Text(
            f"Trainings of nano from checkpoints of bf16 after {design.WARM} steps, with the learning rate and the number of "
            "steps of the orderings (the first two rows), with a third of the rate, and with three times the steps. D is the "
            "held-out loss with SR on dY above that with rounding to nearest, in percent, paired by seed. Command: "
            f"`{RUN} run --design sr`."
        ),
        Table("SR in trainings", ["setting", "format", "seeds", "loss without SR", "D, % [95%]"], rows, 2),
        Text("The hypotheses of the [plan](study_plan.md#why-sr-on-dy-learning-rate-and-number-of-steps), in points of D."),
        Table("SR hypotheses", ["hypothesis", "setting", "seeds", "value [95%]", "p, Holm", "here"], verdicts, 2),
    ]


def forest_rows(losses):
    """Those of a forest plot: (name, Interval, recipe)."""
    recipes = {name: with_sr for name, with_sr, _ in SR_PAIRS}
    return [
        (f"{NAMES[setting]}, {name}", stats.interval(list(d.values())), recipes[name])
        for (setting, name), d in effects(losses).items()
    ]
