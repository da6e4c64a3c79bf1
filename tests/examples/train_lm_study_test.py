#!/usr/bin/env python3
# ufp4 - tests: the study's statistics on data with known effects, its runner under kill -9, and its report.
# SPDX-License-Identifier: Apache-2.0
import gzip
import html.parser
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import numpy

HERE = pathlib.Path(__file__).resolve().parent
STUDY = HERE.parents[1] / "examples" / "train_lm" / "study"
FAKE = HERE / "train_lm_fake.py"
sys.path.insert(0, str(STUDY))

import claims  # noqa: E402
import design  # noqa: E402
import findings  # noqa: E402
import grid  # noqa: E402
import page  # noqa: E402
import records  # noqa: E402
import report  # noqa: E402
import runner  # noqa: E402
import second  # noqa: E402
import stats  # noqa: E402
import table  # noqa: E402
import verdicts  # noqa: E402
import why  # noqa: E402
import why_training  # noqa: E402


class Statistics(unittest.TestCase):
    def test_the_interval_of_four_values_is_that_of_the_t_table(self):
        i = stats.interval([1.0, 2.0, 3.0, 4.0])
        half = 3.182446 * math.sqrt(5 / 3) / 2
        self.assertAlmostEqual(i.low, 2.5 - half, places=5)
        self.assertAlmostEqual(i.high, 2.5 + half, places=5)

    def test_a_95_percent_interval_of_five_seeds_contains_the_true_mean_95_times_in_100(self):
        random = numpy.random.default_rng(7)
        held = [i.low < 0.3 < i.high for i in (stats.interval(random.normal(0.3, 0.2, 5)) for _ in range(1500))]
        self.assertAlmostEqual(sum(held) / len(held), 0.95, delta=0.02)  # 3.5 standard errors

    def test_one_seed_leaves_an_ordering_unresolved(self):
        self.assertEqual(stats.verdict(stats.interval([-3.0])), "unresolved")
        self.assertEqual(stats.verdict(None), "no data")

    def test_an_ordering_is_confirmed_reversed_or_unresolved_by_where_its_interval_lies(self):
        self.assertEqual(stats.verdict(stats.interval([-0.30, -0.31, -0.29])), "confirmed")
        self.assertEqual(stats.verdict(stats.interval([0.30, 0.31, 0.29])), "reversed")
        self.assertEqual(stats.verdict(stats.interval([-0.30, 0.31, -0.29])), "unresolved")

    def test_only_seeds_that_both_have_are_paired(self):
        seeds, d = stats.relative_differences({1: 2.02, 2: 2.0, 9: 5.0}, {1: 2.0, 2: 2.0, 3: 1.0})
        self.assertEqual(seeds, [1, 2])
        self.assertAlmostEqual(d[0], 1.0)
        self.assertEqual(d[1], 0.0)

    def test_holms_correction_of_a_textbook_example(self):
        for got, want in zip(stats.holm([0.01, 0.04, None, 0.03, 0.005]), [0.03, 0.06, None, 0.06, 0.02]):
            self.assertEqual(got is None, want is None)
            if want is not None:
                self.assertAlmostEqual(got, want)

    def test_holms_correction_counts_tests_that_have_no_data_yet(self):
        self.assertEqual(stats.holm([0.01, None, None], 3), [0.03, None, None])
        got = stats.holm([0.03, 0.01, None, None], 4)
        self.assertAlmostEqual(got[0], 0.09)
        self.assertAlmostEqual(got[1], 0.04)

    def test_the_number_of_seeds_makes_the_effect_two_standard_errors(self):
        for sd, seeds in ((0.05, 5), (0.6, 16), (0.61, 17)):
            made = numpy.array([-1.0, 1.0, -1.0, 1.0, 0.0])
            found = stats.power(list(made * sd))
            self.assertAlmostEqual(found.sd, sd)
            self.assertEqual(found.seeds, seeds)
            self.assertLessEqual(2 * sd / math.sqrt(found.seeds), 0.3 + 1e-12)
            self.assertGreater(found.sd_high, sd)
        with self.assertRaises(ValueError):
            stats.power([0.1])


class Verdicts(unittest.TestCase):
    def values(self, mean, sd=0.1, n=24, seed=1):
        x = numpy.random.default_rng(seed).normal(size=n)
        return list(mean + sd * (x - x.mean()) / x.std(ddof=1))

    def test_tost_of_a_worked_example(self):
        # The t table has 2.0639 for 0.975 and 24 degrees of freedom; the standard error is 0.1 / 5.
        mean = 0.15 - 2.0639 * 0.02
        self.assertAlmostEqual(verdicts.p_equivalence(stats.interval(self.values(mean, 0.1, 25))), 0.025, places=5)
        self.assertAlmostEqual(verdicts.p_equivalence(stats.interval(self.values(-mean, 0.1, 25))), 0.025, places=5)
        self.assertAlmostEqual(verdicts.p_equivalence(stats.interval(self.values(-0.15, 0.1, 25))), 0.5, places=6)
        self.assertGreater(verdicts.p_equivalence(stats.interval(self.values(0.3))), 0.99)
        self.assertIsNone(verdicts.p_equivalence(stats.interval([0.1])))

    def test_an_ordering_is_confirmed_reversed_equivalent_or_undecided(self):
        labels = [v.label for v in verdicts.decide([self.values(m, s) for m, s in
                                                    ((-0.5, 0.3), (0.5, 0.3), (0.01, 0.1), (-0.05, 0.4))] + [None])]
        self.assertEqual(labels, ["confirmed", "reversed", "equivalent", "undecided", "no data"])

    def test_a_significant_difference_inside_the_margin_is_a_difference(self):
        verdict = verdicts.decide([self.values(-0.06, 0.05)])[0]
        self.assertLess(verdict.holm_equivalent, 0.001)
        self.assertEqual(verdict.label, "confirmed")

    def test_orderings_without_data_count_in_holms_correction(self):
        values = self.values(-0.06, 0.1)  # p of the difference is about 0.007
        self.assertEqual(verdicts.decide([values])[0].holm_difference, stats.interval(values).p)
        self.assertAlmostEqual(verdicts.decide([values] + 12 * [None])[0].holm_difference, 13 * stats.interval(values).p)

    def test_the_first_look_that_decides_an_ordering_decides_it(self):
        first, second_look = [self.values(-0.5), self.values(0.0, 0.6)], [self.values(0.5), self.values(0.0, 0.05)]
        final = verdicts.looks([first, second_look])
        self.assertEqual([v.label for v in final], ["confirmed", "equivalent"])
        self.assertLess(final[0].difference.mean, 0)
        self.assertEqual([v.label for v in verdicts.looks([first])], ["confirmed", "undecided"])

    def test_a_true_difference_of_zero_is_rarely_called_a_difference_over_two_looks_and_thirteen_orderings(self):
        random = numpy.random.default_rng(5)
        wrong = 0
        for _ in range(200):
            data = random.normal(0, 0.25, (13, 48))
            final = verdicts.looks([[row[:24] for row in data], list(data)])
            wrong += any(v.label in ("confirmed", "reversed") for v in final)
        self.assertLessEqual(wrong, 20)  # at most 5% expected: 20 of 200 or more has a chance of 3 in 1000

    def test_the_number_of_seeds_for_equivalence_is_enough_in_a_simulation(self):
        n = verdicts.seeds_for_equivalence(0.2, 1, 0.8)
        random = numpy.random.default_rng(6)
        found = [verdicts.p_equivalence(stats.interval(random.normal(0, 0.2, n))) < 0.025 for _ in range(600)]
        self.assertAlmostEqual(sum(found) / 600, 0.8, delta=0.06)


class ScalingLaw(unittest.TestCase):
    compute = [1e11, 5e11, 1.2e12, 3e12, 9e12]

    def losses(self, floor=1.5, b=0.3, noise=0.0, seed=0):
        c = numpy.array(self.compute)
        c = c / numpy.exp(numpy.log(c).mean())
        random = numpy.random.default_rng(seed)
        return {
            s: list(floor + 0.8 * c**-b + random.normal(0, noise, 5) if noise else floor + 0.8 * c**-b)
            for s in range(5)
        }

    def test_noiseless_losses_give_the_parameters_of_the_law(self):
        for b in (0.05, 0.3, 1.1):
            fit = stats.scaling_law(self.compute, self.losses(b=b))
            self.assertAlmostEqual(fit["b"], b, delta=2e-3 * b)
            self.assertAlmostEqual(fit["E"], 1.5, delta=5e-3)
            self.assertAlmostEqual(fit["A"], 0.8, delta=5e-3)
            self.assertFalse(fit["at_edge"])

    def test_the_uncertainty_contains_the_true_exponent(self):
        held = 0
        for seed in range(20):
            fit = stats.scaling_law(self.compute, self.losses(noise=0.004, seed=seed), draws=150)
            held += abs(fit["b"] - 0.3) < fit["half"]["b"]
        self.assertGreaterEqual(held, 17)  # at 95%, fewer than 17 of 20 has a chance of 2 in 100; the seeds are fixed

    def test_three_sizes_are_too_few_and_losses_without_a_bend_are_marked(self):
        self.assertIsNone(stats.scaling_law(self.compute[:3], {s: x[:3] for s, x in self.losses().items()}))
        c = numpy.log(numpy.array(self.compute))
        straight = {s: list(10 - 0.2 * c) for s in range(3)}
        self.assertTrue(stats.scaling_law(self.compute, straight)["at_edge"])

    def test_a_seed_without_every_size_is_not_used(self):
        by_seed = self.losses(noise=0.002)
        whole = stats.scaling_law(self.compute, by_seed)
        more = stats.scaling_law(self.compute, {**by_seed, 7: [9.0, 9.0, None, 9.0, 9.0]})
        for name in ("E", "A", "b", "seeds", "half"):
            self.assertEqual(more[name], whole[name])
        self.assertIsNone(stats.scaling_law(self.compute, {7: [9.0, 9.0, None, 9.0, 9.0]}))
        alone = stats.scaling_law(self.compute, {0: by_seed[0], 7: [9.0, None, 9.0, 9.0, 9.0]})
        self.assertEqual(alone["half"], {})

    def test_a_recipe_one_percent_worse_everywhere_needs_the_compute_that_the_law_gives(self):
        entries = []
        for factor in (1.0, 1.01):
            by = {s: [factor * x for x in xs] for s, xs in self.losses(noise=0.002).items()}
            entries.append({"compute": self.compute, "units": sorted(by), "fit": stats.scaling_law(self.compute, by)})
        against = stats.compare_fits(entries[1], entries[0])
        self.assertLess(abs(against["b"][0]), 1e-3)
        self.assertAlmostEqual(against["E"][0], 0.01 * entries[0]["fit"]["E"], delta=2e-3)
        fit = entries[0]["fit"]
        share = against["compute"][0] * self.compute[-1]
        self.assertAlmostEqual(
            float(stats.power_law_at(fit, self.compute, share)),
            1.01 * float(stats.power_law_at(fit, self.compute, self.compute[-1])),
            delta=1e-3,
        )


class Grid(unittest.TestCase):
    def test_the_default_grid_is_seed_major_and_has_what_the_study_promises(self):
        runs = grid.runs_of(grid.DEFAULT)
        self.assertEqual(len({r.key for r in runs}), len(runs))
        for model in ("micro", "micro-moe"):
            for recipe in grid.CORE:
                self.assertEqual(sum(r.model == model and r.recipe == recipe for r in runs), 5)
        core = [r.seed for r in runs if r.recipe in grid.CORE and r.model in ("micro", "micro-moe")]
        self.assertEqual(core, sorted(core))
        for recipe in grid.SCALED:
            self.assertGreaterEqual(len({r.shape for r in runs if r.recipe == recipe and "scaling" in r.uses}), 4)
        self.assertEqual(sum(r.recipe == "ufp4" and r.model == "micro" for r in grid.runs_of(grid.DEFAULT, 8)), 8)
        ordered = {recipe for _, *pair in claims.ORDERINGS for recipe in pair}
        self.assertLessEqual(ordered, {r.recipe for r in runs if r.model == "micro"})

    def test_the_runs_of_a_trunk_start_with_its_checkpoint_and_draws_share_its_data(self):
        trunk = {"model": "t", "recipe": "bf16", "step": 20}
        block = {"model": "b", "recipes": ["ufp4"], "seeds": [3, 4], "trunk": trunk, "draws": 2}
        runs = grid.runs_of([block])
        self.assertEqual([r.key for r in runs], [f"b.ufp4.s{s}" for s in (3001, 3002, 4001, 4002)])
        self.assertEqual(runs[2].needs, "t.bf16.s4/checkpoint-20.safetensors")
        self.assertIn(f"--from {grid.OUT}/{runs[2].needs} --seed 4001 --data-seed 4", " ".join(runs[2].arguments))
        self.assertNotIn("--from", grid.runs_of([{**block, "trunk": None}])[0].arguments)

    def test_the_second_design_has_every_ordering_at_both_looks_with_a_trunk_before_its_branches(self):
        runs = grid.runs_of(design.orderings_grid())
        for _, *pair in claims.ORDERINGS:
            for recipe in pair:
                seeds = [r.seed for r in runs if (r.model, r.recipe) == (design.branch("nano"), recipe)]
                self.assertEqual(len(seeds), design.SEEDS_AT_LOOKS[-1])
        self.assertEqual(len(design.orderings("micro-moe")), 3)
        for name in design.GRIDS:
            made = set()
            for run in design.runs(name):
                self.assertIn(run.needs.split("/")[0], made | {""}, name)
                made.add(run.key)
        self.assertFalse(set(design.NOISE_SEEDS) & {r.seed for r in runs})

    def test_a_damaged_grid_is_named(self):
        for blocks, word in (
            ([{"model": "a"}], "seeds"),
            ([{"model": "a b", "seeds": 1, "recipes": []}], "a b"),
            ([7], "model"),
            ([{"model": "a", "seeds": 1, "recipes": ["x"], "trunk": "t"}], "trunk"),
            ([{"model": "a", "seeds": 1, "recipes": [3]}], "3"),
            (
                [
                    {"model": "a", "seeds": 1, "recipes": ["x"]},
                    {"model": "a", "seeds": 1, "recipes": ["x"], "arguments": ["--moe"]},
                ],
                "a.x.s1",
            ),
        ):
            with self.assertRaisesRegex(grid.GridError, re.escape(word)):
                grid.runs_of(blocks)


def record(model, recipe, seed, loss, flops=1e12, uses=("orderings", "scaling"), probes=None, text=""):
    return {
        "key": f"{model}.{recipe}.s{seed}",
        "model": model,
        "recipe": recipe,
        "seed": seed,
        "uses": list(uses),
        "shape": ["--size", model],
        "arguments": ["--size", model, "--recipe", recipe, "--seed", str(seed)],
        "machine": {"cpu": "C & D <1>", "compiler": "c", "commit": "0"},
        "train_loss": loss,
        "valid_loss": None if loss is None else 1.01 * loss,
        "steps": 40.0,
        "tokens": 1e6,
        "flops": flops,
        "parameters": 1e5,
        "seconds": 10.0,
        "share_quantize": 0.3,
        "share_gemm": 0.4,
        "checkpoint_hash": "h",
        "text": text,
        "log": {"train": [[s, 5 * (loss or 2) / s] for s in range(1, 41)], "valid": []},
        "probes": probes,
    }


EFFECTS = {"bf16": 0.0, "e2m1-baseline": 1.3, "ufp4": 1.0, "ufp4-rht-none": 1.6, "e2m1-rht-all": 1.2, "nvfp4": 1.31}


def many(noise=0.05, seeds=5, models=(("a", 1e10), ("b", 1e11), ("c", 1e12), ("d", 1e13))):
    random = numpy.random.default_rng(3)
    out = []
    for model, flops in models:
        for seed in range(1, seeds + 1):
            base = (1.5 + 0.5 * (flops / 1e11) ** -0.25) * (1 + 0.02 * random.normal())
            for recipe, effect in EFFECTS.items():
                a = 0.994 if recipe == "e2m1-rht-all" else 0.997 if "e2m1" in recipe else 1.0
                values = lambda x: {"attenuation": x, "sqnr_db": [20.0] * len(x)}
                probes = (
                    None
                    if recipe == "bf16"
                    else {
                        "steps": [1, 20],
                        "layers": [0, 1, 2],
                        "operands": {o: values([a, a + 1e-5 * seed]) for o in ("X", "W")},
                        "by_layer": {o: values([[a, a, a]] * 2) for o in ("X", "W")},
                        "residual": values([[a ** (k + 1) + 1e-6 * seed * k for k in range(3)]] * 2),
                    }
                )
                if probes:
                    for o in probes["by_layer"].values():
                        o["sqnr_db"] = [[20.0] * 3] * 2
                    probes["residual"]["sqnr_db"] = [[20.0, 19.0, 18.0]] * 2
                out.append(
                    record(
                        model, recipe, seed, base * (1 + (effect + noise * random.normal()) / 100), flops, probes=probes
                    )
                )
    return out


class Findings(unittest.TestCase):
    def test_known_effects_are_found_within_their_intervals(self):
        found = findings.find(many())
        self.assertEqual(len(found["models"]), 4)
        for model in found["models"]:
            for row in model.recipes[1:]:
                i = row.error["train"]
                self.assertFalse(row.exploratory)
                self.assertAlmostEqual(i.mean, EFFECTS[row.recipe], delta=4 * 0.05 * math.sqrt(2 / 5))
                self.assertLess(i.high - i.low, 0.4)
            labels = {(o.better, o.worse): o.label for o in model.orderings}
            self.assertEqual(labels["ufp4", "e2m1-baseline"], "confirmed")
            self.assertEqual(labels["ufp4", "ufp4-rht-none"], "confirmed")
            self.assertIn(labels["e2m1-baseline", "e2m1-rht-all"], ("reversed", "unresolved"))
            self.assertEqual(labels["ufp4", "ufp4-no-sr"], "no data")
            self.assertLess(model.probes["e2m1-rht-all"]["slope"].high, -0.55)
            change = {without: c["X"] for _, without, _, c in model.amplified}["e2m1-baseline"]
            self.assertAlmostEqual(change.mean, -0.3, places=3)

    def test_noise_is_called_unresolved(self):
        model = findings.find(many(noise=5.0, models=(("a", 1e10),)))["models"][0]
        self.assertEqual({o.label for o in model.orderings}, {"unresolved", "no data"})

    def test_fewer_than_five_seeds_are_exploratory(self):
        model = findings.find(many(seeds=4, models=(("a", 1e10),)))["models"][0]
        self.assertTrue(all(r.exploratory for r in model.recipes))
        self.assertTrue(all(o.exploratory for o in model.orderings))

    def test_the_mean_loss_of_a_recipe_with_more_seeds_than_bf16_is_of_the_seeds_that_bf16_has(self):
        runs = [record("a", r, s, 2.0 + s / 10) for r in ("bf16", "ufp4") for s in (1, 2, 3)]
        runs += [record("a", "ufp4", s, 90.0) for s in (4, 5)]
        rows = {r.recipe: r for r in findings.find(runs)["models"][0].recipes}
        self.assertEqual(rows["ufp4"].seeds, 3)
        self.assertAlmostEqual(rows["ufp4"].loss["train"].mean, 2.2)

    def test_the_ablation_and_the_curves_are_of_the_seeds_that_bf16_has(self):
        runs = [record("a", r, s, 2.0 + s / 10) for r in ("bf16", "ufp4", "ufp4-no-sr") for s in (1, 2, 3)]
        runs += [record("a", "ufp4", s, 90.0) for s in (4, 5)]
        model = findings.find(runs)["models"][0]
        losses = {recipe: loss for _, recipe, *_, loss in model.ablation}
        self.assertAlmostEqual(losses["ufp4"].mean, losses["ufp4-no-sr"].mean)
        self.assertLess(max(mean for _, mean, *_ in model.curves["ufp4"]), 12)
        self.assertEqual(model.runs, 11)

    def test_sizes_are_compared_over_the_seeds_that_every_recipe_has_at_every_size(self):
        runs = [r for r in many() if r["key"] not in ("b.ufp4.s5", "c.bf16.s4")]
        found = findings.find(runs)["scaling"]["recipes"]
        for recipe in ("bf16", "ufp4", "nvfp4"):
            self.assertEqual([u[0] for u in found[recipe]["units"]], [1, 2, 3])
            self.assertEqual([i.n for i in found[recipe]["loss"]], [3, 3, 3, 3])
            self.assertEqual(found[recipe]["fit"]["seeds"], 3)
        self.assertIsNotNone(found["ufp4"]["against"])

    def test_what_rht_does_to_depth_is_the_difference_of_slopes_seed_by_seed(self):
        model = findings.find(many(models=(("a", 1e10),)))["models"][0]
        change = {without: i for _, without, _, i in model.deepened}
        self.assertAlmostEqual(change["e2m1-baseline"].mean, 100 * math.log(0.994 / 0.997), places=3)
        self.assertAlmostEqual(change["ufp4-rht-none"].mean, 0, places=3)
        text = page.markdown_of(findings.find(many(models=(("a", 1e10),))))
        self.assertRegex(text, r"E2M1 \(`e2m1-baseline` → `e2m1-rht-all`\) \|.*\| in X, W \|")
        self.assertRegex(text, r"E2M1 \(`e2m1-baseline` → `e2m1-rht-all`\) \| 5 \|.*shrinks more with depth \|")

    def test_a_diverged_run_is_named_and_not_part_of_any_mean(self):
        runs = many(models=(("a", 1e10),))
        for r in runs:
            if r["key"] == "a.ufp4.s3":
                r["train_loss"] = r["valid_loss"] = None
        found = findings.find(runs)
        row = next(r for r in found["models"][0].recipes if r.recipe == "ufp4")
        self.assertEqual((row.seeds, row.diverged, row.error["train"].n, row.exploratory), (4, 1, 4, True))
        self.assertIn("a.ufp4.s3", page.markdown_of(found))

    def test_runs_on_another_text_are_not_paired(self):
        runs = [record("a", "bf16", 1, 2.0, text="x"), record("a", "ufp4", 1, 2.2, text="y")]
        self.assertIsNone(
            next(r for r in findings.find(runs)["models"][0].recipes if r.recipe == "ufp4").error["train"]
        )

    def test_runs_of_a_model_with_other_arguments_are_left_out_with_a_message(self):
        runs = many(models=(("a", 1e10),))
        runs[0]["shape"] = ["--size", "other"]
        found = findings.find(runs)
        self.assertIn(runs[0]["key"], found["messages"][0])
        self.assertNotIn(runs[0]["key"], [r["key"] for r in found["records"]])

    def test_the_papers_difference_of_its_errors_is_about_minus_0_29_percent(self):
        self.assertAlmostEqual(claims.paper_difference("ufp4", "e2m1-baseline"), -0.286, places=3)
        self.assertIsNone(claims.paper_difference("ufp4", "mxfp4"))

    def test_dense_models_are_compared_with_the_papers_dense_model_and_mixtures_with_its_mixtures(self):
        self.assertAlmostEqual(claims.paper_difference("ufp4", "e2m1-baseline", moe=True), -0.501, places=3)
        self.assertIsNone(claims.paper_difference("ufp4", "ufp4-rht-none", moe=True))  # the ablation is of Dense 1.5B
        runs = many(models=(("a", 1e10),))
        dense = page.markdown_of(findings.find(runs))
        mixture = page.markdown_of(findings.find([{**r, "shape": ["--size", "micro", "--moe"]} for r in runs]))
        self.assertIn("paper, Dense 1.5B, % |", dense)
        self.assertNotIn("MoE", dense)
        self.assertIn("paper, MoE 7.9B, % | paper, MoE 124B, % |", mixture)
        self.assertRegex(mixture, r"\| ufp4 \|.*\| 1\.847 \| 1\.386 \|")
        self.assertNotIn("paper, Dense 1.5B", mixture)

    def test_runs_with_other_instructions_in_eigen_are_not_paired_and_reported(self):
        runs = [{**record("a", "bf16", 1, 2.0), "eigen": "AVX2"}, {**record("a", "ufp4", 1, 2.2), "eigen": "SSE2"}]
        found = findings.find(runs)
        self.assertIsNone(next(r for r in found["models"][0].recipes if r.recipe == "ufp4").error["train"])
        self.assertIn("AVX2; SSE2", page.markdown_of(found))

    def test_the_report_names_the_text_and_the_runs_that_changed_machines(self):
        runs = many(models=(("a", 1e10),))
        for r in runs:
            r.update(text="0xabc", text_source="61 files at /usr/include/c++/12", text_bytes=[9e6, 1e6])
        here, there = runs[0]["machine"], {**runs[0]["machine"], "commit": "other"}
        runs[0]["machines"] = [there, here]
        text = page.markdown_of(findings.find(runs))
        self.assertIn(f"| 61 files at /usr/include/c++/12 | 0xabc | 9000000 | 1000000 | {len(runs)} |", text)
        self.assertRegex(text, r"\| other \| 1 \|")
        self.assertRegex(text, rf"finished with another, and counted for each: {re.escape(runs[0]['key'])}\.")

    def test_the_report_uses_the_effect_that_power_was_given(self):
        runs = many(models=(("a", 1e10),))
        self.assertIn("a loss difference of 0.3%", page.markdown_of(findings.find(runs)))
        asked = findings.find(runs, [{"model": "a", "effect": 0.02}])
        self.assertIn("a loss difference of 0.02%", page.markdown_of(asked))
        self.assertGreater(asked["achieved"]["a"].seeds, 5)

    def test_both_measures_of_every_operand_are_drawn_over_training_and_over_depth(self):
        text = report.html_of(findings.find(many(models=(("a", 1e10),))))
        for o in ("X", "W"):
            for place in ("over training", "by layer, last probe"):
                for measure in ("attenuation", "SQNR, dB"):
                    self.assertIn(f"Operand {o} {place}: {measure}, a", text)
        self.assertIn("Residual stream over training: slope of log attenuation, a", text)
        for layer in (0, 1, 2):
            for what in ("Residual stream", "Operand X", "Operand W"):
                self.assertIn(f"{what} over training, layer {layer}: attenuation, a", text)
                self.assertIn(f"{what} over training, layer {layer}: SQNR, dB, a", text)


class Tags(html.parser.HTMLParser):
    """Checks that every tag is closed in order, and collects external files that the page would load."""

    empty = {"meta", "br", "link", "img"}

    def __init__(self):
        super().__init__()
        self.open, self.counts, self.loads, self.wrong = [], {}, [], []

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.loads += [v for k, v in attributes if k in ("src", "href") and not (v or "").startswith("#")]
        if tag not in self.empty:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


class Report(unittest.TestCase):
    def whole(self, found):
        text = report.html_of(found)
        tags = Tags()
        tags.feed(text)
        self.assertEqual((tags.open, tags.wrong, tags.loads), ([], [], []))
        self.assertNotRegex(text, r"<script|url\(|@import|\bnan\b|\bNone\b")
        for drawing in re.findall(r'<svg viewBox="0 0 \d\d\d.*?</svg>', text):
            xml.etree.ElementTree.fromstring(drawing)
            self.assertNotRegex(drawing, r"nan|inf\b")
        self.assertLessEqual(tags.counts.get("figure", 0), tags.counts.get("table", 0))
        markdown = page.markdown_of(found)
        for block in re.findall(r"(?:^\|.*\n)+", markdown, re.M):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.strip().splitlines()}
            self.assertEqual(len(widths), 1, block)
        return text, markdown

    def test_a_report_without_runs_is_valid(self):
        self.assertIn("no complete run yet", self.whole(findings.find([]))[0])

    def test_a_report_of_any_first_runs_is_valid(self):
        runs = many()
        for some in (
            [runs[0]],
            [runs[2]],
            runs[:2],
            runs[:7],
            [record("a", "ufp4", 1, None)],
            [record("a", r, s, 2.0) for r in ("bf16", "ufp4") for s in (1, 2)],
            [r for r in runs if r["seed"] < 3],
        ):
            self.whole(findings.find(some))

    def test_a_report_of_all_runs_has_a_fit_labels_and_the_command_of_each_run(self):
        runs = many()
        text, markdown = self.whole(findings.find(runs))
        for words in ("✓ confirmed", "Fits of the scaling law", "C &amp; D &lt;1&gt;", "How many seeds", "1.257"):
            self.assertIn(words, text)
        for r in runs:
            whole = "train_lm " + " ".join(r["arguments"]) + f" --threads 1 --out {r['key']}"
            self.assertIn(whole, text)
            self.assertIn(whole, markdown)

    def test_too_few_sizes_are_reported(self):
        _, markdown = self.whole(findings.find(many(models=(("a", 1e10), ("b", 1e11)))))
        self.assertIn("too few for a fit", markdown)

    def test_only_the_text_between_the_markers_is_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.md"
            path.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n", encoding="utf-8")
            for _ in range(2):
                page.update(path, findings.find(many(models=(("a", 1e10),))))
            text = path.read_text(encoding="utf-8")
            self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n"))
            self.assertEqual((text.count("\nold\n"), text.count("## Results")), (0, 1))
            path.write_text("no markers", encoding="utf-8")
            with self.assertRaisesRegex(page.PageError, "page.md"):
                page.update(path, findings.find([]))
            self.assertEqual(path.read_text(encoding="utf-8"), "no markers")


GRID = [
    {
        "model": "tiny",
        "arguments": ["--size", "nano", "--steps", 60, "--probe-every", 30],
        "recipes": ["bf16", "ufp4"],
        "seeds": 2,
    }
]


class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="train_lm_study."))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.fake = self.folder / "train_lm"  # under this Python, which need not be on PATH
        self.fake.write_text(
            f"#!{sys.executable}\nimport runpy\nrunpy.run_path({str(FAKE)!r}, run_name='__main__')\n", encoding="utf-8"
        )
        self.fake.chmod(0o755)
        asked, runner.machine_of = runner.machine_of, lambda *_: {"cpu": "c", "compiler": "c", "commit": "c"}
        self.addCleanup(setattr, runner, "machine_of", asked)
        self.out, self.messages = self.folder / "out", []

    def study(self, blocks=GRID, program=None, **more):
        return runner.Study(
            grid.runs_of(blocks), self.out, program or self.fake, HERE, jobs=2, log=self.messages.append, **more
        ).run()

    def results(self, out=None):
        """Without the machines: the tree may change while a test runs."""
        got, messages = records.read_folders(out or self.out)
        return [json.dumps({**r, "machine": {}, "machines": []}, sort_keys=True) for r in got], messages

    def command(self, *words, **environment):
        return subprocess.Popen(
            [sys.executable, str(STUDY / "study.py"), *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
        )

    def test_a_study_killed_at_any_moment_and_started_again_has_the_runs_of_an_undisturbed_one(self):
        (self.folder / "grid.json").write_text(json.dumps(GRID), encoding="utf-8")
        words = ("run", "--out", self.out, "--train-lm", self.fake, "--grid", self.folder / "grid.json", "--jobs", 2)
        killed = self.command(*words, FAKE_STEP_SECONDS="0.03")
        until = time.monotonic() + 120
        while time.monotonic() < until and not list(self.out.glob("*/checkpoint.safetensors")):
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        killed.stdout.close()
        self.assertLess(len(list(self.out.glob("*/result.json"))), 4)
        again = self.command(*words)
        output, _ = again.communicate(timeout=200)
        self.assertEqual(again.returncode, 0, output)
        self.assertIn("4 of 4 runs done", output)
        self.assertRegex(output, r"[12] begun")
        disturbed, messages = self.results()
        self.assertEqual(messages, [])
        self.out = self.folder / "undisturbed"
        self.study()
        self.assertEqual(disturbed, self.results()[0])

    def test_what_is_done_is_not_made_again(self):
        self.study()
        before = {p: p.stat().st_mtime_ns for p in self.out.glob("*/*") if p.name != "run.lock"}
        self.assertEqual(len([p for p in before if p.name == "result.json"]), 4)
        self.assertEqual(self.study(), (4, 4, []))
        self.assertEqual(before, {p: p.stat().st_mtime_ns for p in before})

    def test_damaged_partial_and_foreign_folders_are_skipped_with_a_message_each(self):
        self.study()
        keys = [r.key for r in grid.runs_of(GRID)]
        (self.out / keys[0] / "result.json").write_text("{", encoding="utf-8")
        (self.out / keys[1] / "result.json").unlink()
        (self.out / keys[2] / "log.csv").write_text("step,train_loss\nx,1\n", encoding="utf-8")
        (self.out / "stranger").mkdir()
        got, messages = self.results()
        self.assertEqual(len(got), 1)
        self.assertEqual(len(messages), 4)
        for name, words in (
            (keys[0], "cannot be read"),
            (keys[1], "not complete"),
            (keys[2], "damaged"),
            ("stranger", "not a run"),
        ):
            self.assertTrue(any(s.startswith(name) and words in s for s in messages), (name, messages))
        self.study()
        self.assertEqual(len(self.results()[0]), 3)  # log.csv of a complete run is not made again
        self.assertTrue(any("result.json is damaged" in s for s in self.messages))

    def test_a_folder_of_other_settings_is_left_as_it_is(self):
        self.study()
        before = self.results()[0]
        other = [{**GRID[0], "arguments": ["--size", "nano", "--steps", 50]}]
        self.assertEqual(self.study(other)[0], 0)
        self.assertEqual(self.results()[0], before)
        self.assertTrue(any("other settings" in s for s in self.messages))

    def test_a_run_that_cannot_be_resumed_is_moved_aside_and_begun_anew(self):
        self.study()
        folder = self.out / "tiny.ufp4.s1"
        (folder / "result.json").unlink()
        (folder / "checkpoint.safetensors").write_text("no number", encoding="utf-8")
        self.assertEqual(self.study(), (4, 4, []))
        self.assertTrue((self.out / ".tiny.ufp4.s1.aside-1" / "checkpoint.safetensors").exists())
        self.assertTrue(any("checkpoint.safetensors is damaged" in s for s in self.messages))

    def test_a_run_that_a_signal_ends_goes_on_from_its_checkpoint_and_one_that_always_ends_so_has_failed(self):
        os.environ["FAKE_STEP_SECONDS"] = "0.02"
        self.addCleanup(os.environ.pop, "FAKE_STEP_SECONDS", None)
        kills = 1

        class Killer(runner.Study):
            def _status(self, waiting, jobs):
                for job in jobs:
                    if (job.folder / "checkpoint.safetensors").exists() and len(killed) < kills:
                        if killed and not job.resumed:
                            continue  # the one that is killed is always the same
                        killed.append(job.run.key)
                        job.process.kill()

        for kills, status in ((2, (1, 1, [])), (99, (0, 1, ["tiny.ufp4.s1"]))):
            killed, self.messages, self.out = [], [], self.folder / str(kills)
            runs = [r for r in grid.runs_of(GRID) if r.key == "tiny.ufp4.s1"]
            self.assertEqual(Killer(runs, self.out, self.fake, HERE, log=self.messages.append).run(), status, self.messages)
            self.assertEqual(sum("will be resumed" in s for s in self.messages), min(kills, runner.ENDED_TIMES))
            self.assertEqual(list(self.out.glob(".*.aside-*")), [])
            self.assertTrue((self.out / "tiny.ufp4.s1" / "checkpoint.safetensors").exists())

    def test_a_run_that_was_begun_other_runs_names_both_machines(self):
        self.study()
        folder = self.out / "tiny.ufp4.s1"
        plan = json.loads((folder / "study.json").read_text(encoding="utf-8"))
        plan["machine"] = {"cpu": "another", "compiler": "c", "commit": "c"}
        del plan["machines"]
        (folder / "study.json").write_text(json.dumps(plan), encoding="utf-8")
        (folder / "checkpoint.safetensors").write_text("30", encoding="utf-8")
        (folder / "result.json").unlink()
        self.study()
        machines = records.read_folder(folder)["machines"]
        self.assertEqual([m["cpu"] for m in machines], ["another", "c"])

    def test_a_study_started_with_sigint_ignored_saves_on_sigterm(self):
        (self.folder / "grid.json").write_text(json.dumps(GRID), encoding="utf-8")
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as `nohup study.py &` has it
        try:
            study = self.command(
                *("run", "--out", self.out, "--train-lm", self.fake, "--grid", self.folder / "grid.json"),
                FAKE_STEP_SECONDS="0.05",
            )
        finally:
            signal.signal(signal.SIGINT, before)
        until = time.monotonic() + 120
        while time.monotonic() < until and not list(self.out.glob("*/config.json")):
            time.sleep(0.02)
        study.send_signal(signal.SIGTERM)
        output, _ = study.communicate(timeout=100)
        self.assertEqual(study.returncode, 130, output)
        self.assertIn("interrupted: stopping the runs with a checkpoint", output)

    def test_failures_are_said_with_the_programs_last_words_and_three_in_a_row_end_the_study(self):
        os.environ["FAKE_FAIL"] = "ufp4"
        self.addCleanup(os.environ.pop, "FAKE_FAIL")
        done, _, failed = self.study()
        self.assertEqual((done, sorted(failed)), (2, ["tiny.ufp4.s1", "tiny.ufp4.s2"]))
        self.assertTrue(any("there is no text" in s for s in self.messages))
        os.environ["FAKE_FAIL"] = "tiny"
        self.out = self.folder / "all"
        done, runs, failed = self.study([{**GRID[0], "seeds": 5}])
        self.assertEqual((done, runs), (0, 10))
        self.assertIn(len(failed), (3, 4))  # two are at work when the third fails
        self.assertIn("three runs failed and none succeeded: stopping", self.messages)

    def test_branches_wait_for_their_trunk_and_fail_without_it(self):
        branch = {**GRID[0], "model": "b", "trunk": {"model": "tiny", "recipe": "bf16", "step": 30}, "priority": 0}
        trunk = {**GRID[0], "arguments": [*GRID[0]["arguments"], "--keep-at", 30], "recipes": ["bf16"]}
        self.assertEqual(self.study([branch, trunk]), (6, 6, []))
        self.out = self.folder / "alone"
        done, _, failed = self.study([branch])
        self.assertEqual((done, len(failed)), (0, 4))
        self.assertTrue(any("checkpoint-30.safetensors, which another run makes" in s for s in self.messages))

    def test_a_diverged_run_is_complete(self):
        os.environ["FAKE_DIVERGE"] = "ufp4.s1"
        self.addCleanup(os.environ.pop, "FAKE_DIVERGE")
        self.assertEqual(self.study(), (4, 4, []))
        self.assertIsNone(next(json.loads(r) for r in self.results()[0] if "ufp4.s1" in r)["train_loss"])

    def test_the_end_of_the_time_given_saves_checkpoints_and_the_next_study_goes_on_from_them(self):
        os.environ["FAKE_STEP_SECONDS"] = "0.05"
        self.addCleanup(os.environ.pop, "FAKE_STEP_SECONDS", None)
        checkpoints = lambda: list(self.out.glob("*/checkpoint.safetensors"))

        class EndsOnceSomethingIsSaved(runner.Study):
            def _status(self, waiting, jobs):
                self.end = 0 if checkpoints() else self.end

        study = EndsOnceSomethingIsSaved(
            grid.runs_of(GRID), self.out, self.fake, HERE, jobs=2, hours=1.0, log=self.messages.append
        )
        self.assertAlmostEqual(study.end - time.monotonic(), 3600, delta=60)
        done, _, failed = study.run()
        self.assertLess(done, 4)
        self.assertEqual(failed, [])
        self.assertTrue(checkpoints())
        self.assertIn("--hours are over: stopping the runs with a checkpoint", self.messages)
        del os.environ["FAKE_STEP_SECONDS"]
        self.assertEqual(self.study(), (4, 4, []))
        self.assertTrue(any("resumed" in s for s in self.messages))

    def test_two_studies_do_not_share_a_folder_and_a_missing_program_is_named(self):
        self.out.mkdir()
        lock = runner._lock(self.out / ".study.lock")
        with self.assertRaisesRegex(runner.StudyError, "another study"):
            self.study()
        lock.close()
        with self.assertRaisesRegex(runner.StudyError, "nowhere"):
            self.study(program=self.folder / "nowhere")

    def test_docs_study_md_is_the_report_of_the_results_in_the_repository(self):
        shown = STUDY.parents[2] / "docs" / "study.md"
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / "study.md"
            shutil.copy(shown, made)
            found = subprocess.run(
                [sys.executable, str(STUDY / "study.py"), "report", "--out", folder + "/none"]
                + ["--html", folder + "/study.html", "--page", str(made)],
                capture_output=True,
                text=True,
            )
            self.assertEqual(found.returncode, 0, found.stderr)
            self.assertEqual(made.read_text(encoding="utf-8"), shown.read_text(encoding="utf-8"))

    def test_one_command_makes_the_runs_of_an_ordering_and_prints_its_verdict(self):
        words = ("ordering", "ufp4", "e2m1-baseline", "--out", self.out, "--train-lm", self.fake, "--jobs", 4)
        output, _ = self.command(*words).communicate(timeout=200)
        self.assertIn("36 of 36 runs done", output)  # 12 seeds: a trunk and two branches each
        self.assertIn("UFP4 is better than the E2M1 baseline (ufp4 < e2m1-baseline): ✓ confirmed", output)
        self.assertRegex(output, r"difference −0\.\d+ \[.*\] % of the loss, 12 seeds; p difference < 0\.0001")
        output, _ = self.command("ordering", "ufp4", "bf16", "--out", self.out).communicate(timeout=100)
        self.assertRegex(output, "unknown ordering: ufp4 bf16; those of the paper: .*, ufp4 e2m1-baseline")

    def test_the_tables_of_the_second_design_are_exported_and_its_page_is_rebuilt_from_them(self):
        run = self.command("ordering", "ufp4", "ufp4-rht-none", "--out", self.out, "--train-lm", self.fake, "--jobs", 4)
        run.communicate(timeout=200)
        results, shown = self.folder / "results", self.folder / "second.md"
        shown.write_text(f"{page.BEGIN}\n{page.END}\n", encoding="utf-8")
        report = lambda out: ("report", "--out", out, "--html", self.folder / "x.html", "--second-page", shown)
        pages = []
        for words in (report(self.out), ("export", "--out", self.out), report(self.folder / "none")):
            process = self.command(*words, "--results", results)
            output, _ = process.communicate(timeout=200)
            self.assertEqual(process.returncode, 0, output)
            pages.append(shown.read_text(encoding="utf-8"))
        self.assertIn("`ufp4` < `ufp4-rht-none`) | ✓ confirmed | 12 |", pages[0])
        self.assertEqual(pages[0], pages[2])
        self.assertEqual(len(table.read_runs(results / "second.csv.gz")), 36)
        self.assertEqual(records.read_results(results / "runs.jsonl.gz")[0], [])

    def test_the_report_is_rebuilt_from_the_exported_file_alone(self):
        self.study()
        both = ("--out", self.out, "--results", self.folder / "results")
        for words in (
            ("report", *both, "--html", self.folder / "a.html"),
            ("export", *both),
            ("report", "--out", self.folder / "none", *both[2:], "--html", self.folder / "b.html"),
        ):
            process = self.command(*words)
            output, _ = process.communicate(timeout=200)
            self.assertEqual(process.returncode, 0, output)
        self.assertEqual((self.folder / "a.html").read_bytes(), (self.folder / "b.html").read_bytes())
        self.assertLess((self.folder / "results" / "runs.jsonl.gz").stat().st_size / 4, 4096)


    def test_runs_of_the_folders_replace_those_of_the_results_file_and_power_does_not_change_that_file(self):
        self.study([{**GRID[0], "model": "pilot-nano", "recipes": ["bf16", "e2m1-baseline", "ufp4"]}])
        results = self.folder / "results"
        both = ("--out", self.out, "--results", results)
        own = records.read_folders(self.out)[0]
        theirs = [{**r, "train_loss": 9.87654, "checkpoint_hash": "theirs"} for r in own]
        other_runs = [{**theirs[0], "model": "scale-48", "recipe": x, "key": f"scale-48.{x}.s1"} for x in grid.PILOT]
        records.write_results(results / "runs.jsonl.gz", theirs + other_runs)
        (results / "power.json").write_text("[]", encoding="utf-8")
        output, _ = self.command("power", "--no-run", *both).communicate(timeout=100)
        self.assertIn(f"written: {self.out / 'power.json'}", output)
        self.assertEqual((results / "power.json").read_text(encoding="utf-8"), "[]")
        kept = json.loads((self.out / "power.json").read_text(encoding="utf-8"))
        self.assertEqual([p["model"] for p in kept], ["pilot-nano"])
        output, _ = self.command("report", *both, "--html", self.folder / "own.html").communicate(timeout=100)
        self.assertIn("6 runs of", output)
        self.assertIn("but the run of the folder is used", output)
        text = (self.folder / "own.html").read_text(encoding="utf-8")
        self.assertIn(f"{own[0]['train_loss']:.5f}", text)
        self.assertEqual(text.count("9.87654"), 2)  # the runs without a folder
        output, _ = self.command("export", *both).communicate(timeout=100)
        self.assertEqual(json.loads((results / "power.json").read_text(encoding="utf-8")), kept)
        self.assertEqual(sum(r["train_loss"] == 9.87654 for r in records.read_results(results / "runs.jsonl.gz")[0]), 8)


def branches(effects, noise, seeds=design.seeds_of_look(0), uses=("second",)):
    random = numpy.random.default_rng(8)
    return [
        {**record(design.branch("nano"), recipe, s, 1.6 * (1 + (effect + noise * random.normal()) / 100), uses=uses), "text": "t"}
        for s in seeds
        for recipe, effect in effects.items()
    ]


class SecondDesign(unittest.TestCase):
    def test_known_effects_get_their_verdicts_at_the_first_look(self):
        effects = {"ufp4": 1.0, "e2m1-baseline": 1.5, "ufp4-rht-none": 1.0, "ufp4-no-sr": 0.6}
        labels = {(b, w): v.label for _, b, w, v in second.orderings(branches(effects, 0.05))}
        self.assertEqual(labels["ufp4", "e2m1-baseline"], "confirmed")
        self.assertEqual(labels["ufp4", "ufp4-no-sr"], "reversed")
        self.assertEqual(labels["ufp4", "ufp4-rht-none"], "equivalent")
        self.assertEqual(labels["e2m1-baseline", "e2m1-clip-2"], "no data")

    def test_an_ordering_asked_for_alone_has_the_p_of_a_family_of_all_orderings(self):
        pair = ("ufp4", "e2m1-baseline")
        (*_, v), = second.orderings(branches({"ufp4": 1.0, "e2m1-baseline": 1.05, "ufp4-no-sr": 2.0}, 0.05), pairs={pair})
        self.assertAlmostEqual(v.holm_difference, min(1.0, 13 * v.difference.p))
        self.assertAlmostEqual(v.holm_equivalent, min(1.0, 13 * v.p_equivalent))

    def test_seeds_of_a_second_look_that_is_not_complete_are_not_used(self):
        effects = {"ufp4": 1.0, "e2m1-baseline": 1.0}
        runs = branches(effects, 0.5) + branches(
            {"ufp4": 1.0, "e2m1-baseline": 9.0}, 0.1, list(design.seeds_of_look(1))[:-1]
        )
        verdict = {(b, w): v for _, b, w, v in second.orderings(runs)}["ufp4", "e2m1-baseline"]
        self.assertEqual((verdict.label, verdict.difference.n), ("undecided", design.SEEDS_AT_LOOKS[0]))

    def test_an_ordering_without_all_seeds_of_the_first_look_has_no_verdict(self):
        some = list(design.seeds_of_look(0))[:-1]
        runs = branches({"ufp4": 1.0, "e2m1-baseline": 9.0}, 0.1, some)
        verdict = {(b, w): v for _, b, w, v in second.orderings(runs)}["ufp4", "e2m1-baseline"]
        self.assertEqual((verdict.label, verdict.difference.n), ("incomplete", len(some)))
        self.assertIn("… incomplete | 11 |", page.markdown_of_blocks(second.sections(runs, [], [])))

    def test_a_table_has_the_runs_and_gradients_that_it_was_written_from(self):
        runs = branches({"ufp4": 1.0, "bf16": 0.0}, 0.1)
        runs[0]["valid_loss"] = None
        runs[1]["gradients"] = [
            dict(gemm="all", parameter="block0.qkv", batches=8, draws=16, gain=0.9, bias=1e-3, variance=0.1, cosine=0.8, batch_variance=0.5)
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "second.csv.gz"
            table.write(path, table.RUNS, table.run_rows(runs))
            got = {r["key"]: r for r in table.read_runs(path)}
            for run in runs:
                for name in ("seed", "valid_loss", "train_loss", "arguments", "shape", "uses", "text"):
                    self.assertEqual(got[run["key"]][name], run[name])
                self.assertEqual(got[run["key"]]["machine"]["cpu"], run["machine"]["cpu"])
            before = path.read_bytes()
            table.write(path, table.RUNS, table.run_rows(table.read_runs(path)))
            self.assertEqual(path.read_bytes(), before)
            rows = table.gradient_rows(runs)
            table.write(path, table.GRADIENTS, rows)
            self.assertEqual(table.read(path), rows)
            self.assertEqual(table.read(path.with_name("none")), [])

    def test_the_noise_table_has_the_standard_deviation_of_each_setting(self):
        runs = [{**r, "model": "noise-x"} for r in branches({"ufp4": 0.0, "e2m1-baseline": 0.5}, 0.2, uses=("noise",))]
        found = {(model, metric): i for model, metric, i, _ in second.noise(runs)}
        self.assertEqual(found["noise-x", "valid_loss"].n, design.SEEDS_AT_LOOKS[0])
        self.assertAlmostEqual(found["noise-x", "valid_loss"].sd, 0.2 * math.sqrt(2), delta=0.15)

    def test_the_onset_of_the_noise_is_found_in_curves_that_diverge_halfway(self):
        runs = []
        for recipe in design.NOISE_PAIR:
            for seed in range(1, 13):
                sign = (-1) ** seed if recipe == "ufp4" else 0
                curve = [[s, 2.0 * (1 + (0.01 * sign if s > 100 else 1e-6 * seed * abs(sign)))] for s in range(15, 601, 15)]
                runs.append({**record("nano-600", recipe, seed, 2.0), "log": {"train": curve, "valid": []}})
        found = {step: (sd, r) for step, sd, r in second.onset(runs)}
        self.assertLess(found[90][0], 0.1)
        self.assertAlmostEqual(found[600][0], 1.04, delta=0.03)
        self.assertAlmostEqual(found[120][1], 1.0)

    def test_the_effect_of_forks_is_the_mean_over_draws_and_the_interval_is_over_checkpoints(self):
        runs = []
        for trunk, base in zip(design.GRADIENT_SEEDS, (2.0, 2.2, 2.1, 2.3, 2.4, 1.9)):
            fork = lambda recipe, draw, loss: {
                **record(design.forks("nano"), recipe, 1000 * trunk + draw, 1.0, uses=("forks",)),
                "valid_loss": loss,
            }
            runs.append(fork("bf16", 1, base))
            for draw in (1, 2, 3):
                runs.append(fork("ufp4", draw, base * (1 + (1.0 + 0.1 * (draw - 2)) / 100)))
                runs.append(fork("e2m1-baseline", draw, base * (1 + (2.0 + 0.001 * trunk) / 100)))
        effects = second.fork_effects(runs)
        self.assertAlmostEqual(effects["ufp4"][102][0], 0.9)
        found = second.fork_differences(effects, "ufp4", "e2m1-baseline")
        for got, want in zip(found, (-1.101, -1.102, -1.103, -1.104, -1.105, -1.106)):
            self.assertAlmostEqual(got, want)
        text = page.markdown_of_blocks(second.sections(runs, [], []))
        self.assertRegex(text, r"\| ufp4 \| 6 \| 18 \| \+1\.000 \[\+1\.000, \+1\.000\] \| 0\.100 \|")
        self.assertRegex(text, r"`ufp4` < `e2m1-baseline`\) \| ✓ confirmed \| 6 \| −1\.10")
        text = page.markdown_of_blocks(second.sections(runs[:-1], [], []))  # without the last draw of the last checkpoint
        self.assertRegex(text, r"`ufp4` < `e2m1-baseline`\) \| … incomplete \| 5 \| −1\.10")

    def gradients(self):
        rows = []
        for recipe, error in (("ufp4", 0.1), ("e2m1-baseline", 0.2), ("ufp4-rht-none", 0.1)):
            for seed in design.GRADIENT_SEEDS:
                for gemm in second.GEMMS:
                    for parameter in ("embedding", "block0.qkv", "block1.down"):
                        rows.append(
                            dict(model=design.GRADIENTS, recipe=recipe, seed=seed, gemm=gemm, parameter=parameter)
                            | dict(batches=8, draws=16, gain=1 - error, bias=error**2 + 1e-5 * seed, cosine=0.9)
                            | dict(variance=7.0 if parameter == "embedding" else error * (1 + 1e-3 * (seed - 102)))
                        )
        return rows

    def test_the_errors_of_gradients_are_means_over_linear_layers_paired_by_checkpoint(self):
        text = page.markdown_of_blocks(second.sections([], self.gradients(), []))
        self.assertRegex(text, r"\| ufp4 \| all \| 6 \| 0\.9000 \[0\.9000, 0\.9000\]")
        self.assertRegex(text, r"`ufp4` < `e2m1-baseline`\) \| ✓ confirmed \| 6 \|")
        self.assertRegex(text, r"`ufp4` < `ufp4-rht-none`\) \| \? undecided \| 6 \|")
        self.assertIn("| ufp4 | 0.900 [0.900, 0.900] | 0.900", text)
        self.assertNotIn("| RHT, E1M2 |", text)  # equal errors here
        rows = [{**r, "variance": 2 * r["variance"]} if r["recipe"] == "ufp4-rht-none" else r for r in self.gradients()]
        text = page.markdown_of_blocks(second.sections([], rows, []))
        self.assertRegex(text, r"\| RHT, E1M2 \| dgrad \| 6 \| −4\d\.\d \[.*\] \| 0\.00 \[")

    def test_docs_study_second_md_is_the_report_of_the_tables_in_the_repository(self):
        shown = STUDY.parents[2] / "docs" / "study_second.md"
        results = STUDY / "results"
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / "page.md"
            shutil.copy(shown, made)
            first, _ = records.read_results(results / "runs.jsonl.gz")
            rows = table.read_runs(results / "second.csv.gz"), table.read(results / "gradients.csv.gz")
            depth = table.read(results / "depth.csv.gz")
            page.update_blocks(made, second.sections(*rows, first, depth))
            self.assertEqual(made.read_text(encoding="utf-8"), shown.read_text(encoding="utf-8"))
        for name, picture in second.pictures(*rows, depth, first).items():
            self.assertEqual((shown.parent / "pictures" / name).read_text(encoding="utf-8"), picture)

    def test_orderings_after_forks_are_those_of_the_model(self):
        runs = []
        for trunk in design.GRADIENT_SEEDS:
            for recipe, loss in (("bf16", 2.0), ("ufp4", 2.02), ("e2m1-baseline", 2.04)):
                for draw in (1,):
                    runs.append(
                        {
                            **record(design.forks("micro-moe"), recipe, 1000 * trunk + draw, 1.0, uses=("forks",)),
                            "valid_loss": loss * (1 + 1e-5 * trunk),
                        }
                    )
        found = {(b, w): v.label for _, b, w, v in second.fork_verdicts(runs, "micro-moe")}
        self.assertEqual(len(found), 3)
        self.assertEqual(found["ufp4", "e2m1-baseline"], "confirmed")
        self.assertEqual(found["e2m1-baseline", "e2m1-rht-all"], "no data")
        self.assertEqual({v.label for *_, v in second.fork_verdicts(runs)}, {"no data"})
        self.assertEqual(list(second.pictures(runs, [])), ["study_forks_micro-moe.svg"])

    def depth(self, one):
        """Gains of one**layers in the chain and one in the residual stack, plus a little of each draw."""
        return [
            dict(stack=stack, channels=channels, recipe=recipe, draw=draw, layers=layers, cosine=0.9)
            | dict(gain=(gain ** (layers if stack == "chain" else 1)) * (1 + 1e-4 * (draw - 2)))
            for stack, channels in why.STACKS
            for recipe, gain in one.items()
            for draw in (1, 2, 3)
            for layers in (1, 32)
        ]

    def test_gains_that_multiply_over_depth_hold_the_hypotheses_and_equal_ones_do_not(self):
        one = {"ufp4": 1.0, "ufp4-rht-none": 0.999, "e2m1-rht-all": 0.98, "e2m1-rht-none": 0.99}
        rows = self.depth(one)
        found = {(words[0], setting): (i, label) for words, setting, i, label in why.depth_tests(why.depth_gains(rows))}
        self.assertEqual(found["1", "E2M1, RHT"][1], "= consistent")
        self.assertEqual(found["2", "even, RHT"][1], "✓ holds")
        self.assertAlmostEqual(found["2", "even, RHT"][0].mean, 100 * (0.98**32 - 1), delta=0.02)
        self.assertEqual(found["3", "chain, outliers, layers: 32"][1], "✓ holds")
        self.assertEqual(found["3", "chain, even, layers: 32"][1], "✗ does not hold")
        self.assertEqual(found["4", "even, E2M1, RHT"][1], "✓ holds")
        text = page.markdown_of_blocks(why.depth_section(rows))
        self.assertRegex(text, r"\| chain \| even \| E2M1, RHT \| 0\.9800 \[0\.97\d+, 0\.98\d+\] \| 0\.5239 \[")
        equal = {(w[0], s): label for w, s, _, label in why.depth_tests(why.depth_gains(self.depth(dict.fromkeys(one, 0.99))))}
        self.assertEqual(equal["2", "even, RHT"], "? undecided")
        self.assertEqual(equal["3", "chain, even, layers: 32"], "= consistent")
        drawn = xml.etree.ElementTree.fromstring(why.depth_picture(rows))
        self.assertEqual(len([e for e in drawn.iter() if e.get("class", "").startswith("stem")]), 4 * 4 * 2)

    def test_depth_keeps_the_rows_of_its_program_and_reports_its_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            program = place / "program"
            lines = [",".join(table.DEPTH), "chain,even,ufp4,1,1,0.5,0.25", "chain,even,ufp4,1,2,0.125,1"]
            program.write_text("#!/bin/sh\n" + "".join(f"echo {line}\n" for line in lines), encoding="utf-8")
            program.chmod(0o755)
            command = [sys.executable, str(STUDY / "study.py"), "depth", "--program", str(program), "--results", folder]
            self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 0)
            rows = table.read(place / "depth.csv.gz")
            self.assertEqual([(r["layers"], r["gain"], r["cosine"]) for r in rows], [(1, 0.5, 0.25), (2, 0.125, 1.0)])
            program.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
            failed = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(failed.returncode, 2)
            self.assertIn("exit status 3", failed.stderr)
            self.assertEqual(table.read(place / "depth.csv.gz"), rows)

    def test_what_sr_adds_is_relative_to_the_variance_of_the_batch(self):
        rows = []
        for sequences in design.BATCH_SIZES:
            for recipe, error, gain in (("e2m1-baseline", 0.03, 1.0), ("e2m1-no-sr", 0.01, 0.99)):
                for seed in design.GRADIENT_SEEDS:
                    share = 16 / sequences * (1 + 0.01 * (seed - 103))
                    rows.append(
                        dict(model=design.batches(sequences), recipe=recipe, seed=seed, gemm="wgrad", parameter="block0.qkv")
                        | dict(batches=1, draws=4, gain=gain, bias=0.0, cosine=1.0)
                        | dict(variance=error * share, batch_variance=0.5 * share)
                    )
        ratios = why.batch_ratios(rows)
        found = ratios[16, "E2M1, RHT on wgrad", "wgrad"]
        self.assertAlmostEqual(found["sr"][101], 0.04)
        self.assertAlmostEqual(found["systematic"][103], 1e-4 / 0.5)
        tests = {words[0]: (i, label) for words, _, i, _, label in why.batch_tests(ratios)}
        self.assertAlmostEqual(tests["1"][0].mean, 1.0)
        self.assertEqual(tests["1"][1], "✓ holds")
        self.assertAlmostEqual(tests["2"][0].mean, 16.0)
        self.assertEqual(tests["2"][1], "✓ holds")
        some = why.batch_tests(why.batch_ratios([r for r in rows if r["seed"] != 106]))
        self.assertEqual({label for *_, label in some}, {"… incomplete"})
        self.assertIn("study_batch.svg", second.pictures([], rows))

    def sr_trainings(self, seeds=design.NOISE_SEEDS):
        """SR costs 0.3% on both formats; with more steps it gains 0.2% on E2M1; a smaller rate changes nothing."""
        effect = lambda setting, recipe: {"ufp4": 0.3, "e2m1-baseline": -0.2 if setting == "steps" else 0.3}.get(recipe, 0)
        return [
            {**record(design.sr_setting(setting), recipe, seed, 2.0, uses=("sr",)), "valid_loss": loss}
            for setting in design.SR_SETTINGS
            for recipe in design.SR_RECIPES
            for seed in seeds
            for loss in [2.0 * (1 + 0.01 * effect(setting, recipe)) * (1 + 1e-5 * ((seed * 7 + len(recipe + setting)) % 5))]
        ]

    def test_what_learning_rate_and_steps_do_to_sr_is_found_in_trainings_where_it_is_known(self):
        runs = self.sr_trainings()
        found = why_training.tests(why_training.effects(second.sr_losses(runs)))
        labels = {(words[0], setting): label for words, setting, _, _, label in found}
        self.assertEqual(len(labels), why_training.TESTS)
        self.assertEqual(labels["2", "E2M1, RHT on wgrad"], "✓ holds")
        self.assertEqual(labels["1", "E1M2, RHT on all"], "? undecided")
        self.assertEqual(labels["3", why_training.NAMES["steps"]], "✓ holds")
        text = page.markdown_of_blocks(second.sections(runs, [], []))
        self.assertRegex(text, r"1,200 steps, 3·10⁻³ \| E2M1, RHT on wgrad \| 12 \| 2\.0000 \| −0\.20")
        self.assertIn("study_sr.svg", second.pictures(runs, []))
        some = second.sr_losses(self.sr_trainings(list(design.NOISE_SEEDS)[:-1]))
        self.assertEqual({label for *_, label in why_training.tests(why_training.effects(some))}, {"… incomplete"})

    def test_every_interval_is_a_row_of_its_forest_plot(self):
        picture = second.pictures(branches({"ufp4": 1.0, "e2m1-baseline": 1.5}, 0.1), self.gradients())
        self.assertEqual(set(picture), {"study_orderings.svg", "study_gradients.svg"})
        for name, rows in (("study_orderings.svg", 1), ("study_gradients.svg", 9)):
            root = xml.etree.ElementTree.fromstring(picture[name])
            drawn = [e for e in root.iter() if e.get("class", "").startswith("stem")]
            self.assertEqual(len(drawn), rows)
            self.assertNotRegex(picture[name], r"\bnan\b|\binf\b")

    def test_an_interval_far_from_the_others_is_written_and_not_drawn(self):
        near, far = stats.interval([-0.2, -0.1]), stats.interval([-3.2, -3.3, -3.4])
        picture = second.forest("x", [("near", near, "ufp4"), ("far", far, "ufp4")], "d", limit=1.0)
        root = xml.etree.ElementTree.fromstring(picture)
        self.assertEqual(len([e for e in root.iter() if e.get("class", "").startswith("stem")]), 1)
        self.assertIn("◂ −3.30 [−3.55, −3.05]", picture)
        self.assertNotIn(">−3<", picture)  # no tick of the axis


class Results(unittest.TestCase):
    def test_merging_keeps_the_first_of_two_different_runs_unless_told_otherwise(self):
        old, new = record("a", "ufp4", 1, 2.0), {**record("a", "ufp4", 1, 2.1), "checkpoint_hash": "other"}
        merged, messages = records.merge([old], [new, record("a", "bf16", 1, 1.9)])
        self.assertEqual([r["train_loss"] for r in merged], [1.9, 2.0])
        self.assertIn("a.ufp4.s1", messages[0])
        self.assertEqual([r["train_loss"] for r in records.merge([old], [new], replace=True)[0]], [2.1])
        self.assertEqual(records.merge([old], [dict(old)]), ([old], []))

    def test_damaged_lines_are_skipped_with_a_message(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "runs.jsonl.gz"
            records.write_results(path, many(models=(("a", 1e10),))[:3])
            text = gzip.decompress(path.read_bytes()).decode().splitlines()
            path.write_bytes(gzip.compress("\n".join([text[0], "{", text[1][:50], "[]", text[2]]).encode()))
            got, messages = records.read_results(path)
            self.assertEqual((len(got), len(messages)), (2, 3))

    def test_a_damaged_file_of_runs_is_one_message(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "runs.jsonl.gz"
            for data in (b"no archive", gzip.compress(b"{}")[:-9]):
                path.write_bytes(data)
                got, messages = records.read_results(path)
                self.assertEqual((got, len(messages)), ([], 1), data)


if __name__ == "__main__":
    unittest.main(verbosity=1)
