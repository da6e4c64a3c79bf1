#!/usr/bin/env python3
# ufp4 - tests: the study with train_lm itself: runs, export and report; names that both know; commands as printed.
# SPDX-License-Identifier: Apache-2.0
"""train_lm_study_program_test.py TRAIN_LM TRAIN_LM_DEPTH"""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STUDY = ROOT / "examples" / "train_lm" / "study"
sys.path.insert(0, str(STUDY))

import claims  # noqa: E402
import design  # noqa: E402
import grid  # noqa: E402
import records  # noqa: E402
import table  # noqa: E402
import words  # noqa: E402

PROGRAM, DEPTH = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
TEXT = ROOT / "include" / "ufp4" / "recipe"
# A run of four steps that takes a second, unoptimised too.
TINY = [
    *("--layers", 2, "--width", 32, "--heads", 2, "--ffn", 32, "--sequence", 32, "--batch", 4, "--eval-windows", 4),
    *("--steps", 4, "--probe-every", 2, "--text", TEXT),
]
RECIPES = ["bf16", "ufp4"]
GRID = [{"model": "tiny", "arguments": TINY, "recipes": RECIPES, "seeds": 1}]


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="train_lm_study_program.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def study(self, *given):
        done = subprocess.run(
            [sys.executable, str(STUDY / "study.py"), *map(str, given)],
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_runs_become_records_and_records_a_report(self):
        (self.folder / "grid.json").write_text(json.dumps(GRID, default=str), encoding="utf-8")
        out, results = ("--out", self.folder / "out"), ("--results", self.folder / "results")
        output = self.study("run", *out, "--grid", self.folder / "grid.json", "--train-lm", PROGRAM)
        self.assertIn("2 of 2 runs done", output)
        self.study("export", *out, *results)
        got, damaged = records.read_results(self.folder / "results" / "runs.jsonl.gz")
        self.assertEqual(damaged, [])
        self.assertEqual([r["recipe"] for r in got], RECIPES)
        for r in got:
            self.assertEqual((r["steps"], len(r["log"]["train"])), (4, 4))
            self.assertTrue(2 < r["train_loss"] < 6)
            self.assertRegex(r["text_source"], r"^\d+ files at ")
            self.assertTrue(r["text"] and r["eigen"] and r["kernels"] and min(r["text_bytes"]) > 0)
            self.assertEqual((r["probes"]["steps"], r["probes"]["layers"]), ([1, 2, 4], [0, 1]))
            self.assertEqual(set(r["probes"]["operands"]), {"X", "W", "dY", "W^T", "dY^T", "X^T"})
            self.assertEqual(len(r["probes"]["residual"]["attenuation"]), 3)
        output = self.study("report", "--out", self.folder / "none", *results, "--html", self.folder / "study.html")
        self.assertIn("2 runs; written", output)
        page = (self.folder / "study.html").read_text(encoding="utf-8")
        for name in (r["key"] for r in got):
            self.assertIn(f"--out {name}<", page)
        self.assertIn("Operand dY over training: SQNR, dB, tiny", page)

    def test_branches_of_a_trunk_become_rows_of_the_tables_with_the_errors_of_their_gradients(self):
        arguments = [*TINY, "--ema", 0.5]
        blocks = [
            {"model": "trunk", "arguments": [*arguments, "--keep-at", 2], "recipes": ["bf16"], "uses": ["trunk"]},
            {"model": "branch", "arguments": [*arguments, "--gradient-draws", 2], "recipes": ["ufp4"], "uses": ["second"]},
        ]
        blocks[1]["trunk"] = {"model": "trunk", "recipe": "bf16", "step": 2}
        blocks = [{**b, "seeds": [5]} for b in blocks]
        (self.folder / "grid.json").write_text(json.dumps(blocks, default=str), encoding="utf-8")
        out, results = ("--out", self.folder / "out"), ("--results", self.folder / "results")
        self.study("run", *out, "--grid", self.folder / "grid.json", "--train-lm", PROGRAM)
        self.study("export", *out, *results)
        runs = {r["model"]: r for r in table.read_runs(self.folder / "results" / "second.csv.gz")}
        self.assertEqual(set(runs), {"trunk", "branch"})
        self.assertTrue(all(2 < r["average_valid_loss"] < 6 for r in runs.values()))
        rows = table.read(self.folder / "results" / "gradients.csv.gz")
        self.assertEqual({r["gemm"] for r in rows}, {"fprop", "dgrad", "wgrad", "all"})
        self.assertEqual({(r["model"], r["batches"], r["draws"]) for r in rows}, {("branch", 2, 2)})
        self.assertEqual(len(rows), 4 * (2 * 4 + 2))

    def test_the_command_beside_a_run_of_the_grid_is_one_that_train_lm_takes(self):
        run = next(r for r in grid.runs_of(grid.DEFAULT) if r.model == "micro" and r.recipe == "ufp4")
        line = words.command(run.arguments, run.key)
        self.assertRegex(line, r"^train_lm --size micro .*--probe-every 75 .*--out micro\.ufp4\.s1$")
        shorter = ["--steps", "1", "--eval-windows", "1", "--text", str(TEXT), "--quiet"]
        done = subprocess.run(
            [str(PROGRAM), *shlex.split(line)[1:], *shorter],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue((self.folder / run.key / "result.json").exists())

    def test_train_lm_depth_rejects_anything_but_a_number_of_draws(self):
        for words_given, shown in ((["1"], "1"), (["1001"], "1001"), (["4x"], "4x"), (["-3"], "-3"), (["2", "3"], "more words")):
            done = subprocess.run([DEPTH, *words_given], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"train_lm_depth: DRAWS must be one number from 2 to 1000, got {shown}\n")

    def test_every_recipe_of_the_grid_and_of_the_claims_is_one_that_train_lm_lists(self):
        output = subprocess.run([str(PROGRAM), "--list-recipes"], capture_output=True, text=True, check=True).stdout
        listed = set(re.findall(r"^  (\S+) ", output.split("\nformats")[0], re.M))
        self.assertIn("bf16", listed)
        named = {r.recipe for r in grid.runs_of(grid.DEFAULT + grid.PILOTS) if "--recipe" in r.arguments}
        named |= {recipe for _, *pair in claims.ORDERINGS for recipe in pair} | set(claims.ABOUT)
        named |= {recipe for _, recipe, _ in claims.ABLATION}
        named |= {recipe for errors in claims.REPORTED_ERROR.values() for recipe in errors}
        named |= {r.recipe for name in design.GRIDS for r in design.runs(name)}
        self.assertEqual(named - listed, set())


if __name__ == "__main__":
    unittest.main(verbosity=1)
