# ufp4 - tests: the tables of docs/bias.md are those of rounding_bias, and show what the page states.
# SPDX-License-Identifier: Apache-2.0
# rounding_bias_test.py PROGRAM
import pathlib
import re
import subprocess
import sys
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "bias.md"
MARK = "<!-- tables: "
BATCHES, PAGE_BATCHES = 2, 160
PROGRAM = ""


def tables(text):
    """Each row as a list of cells, with the head of its table."""
    head, found = None, []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            head = None
        elif head is None:
            head = cells
        elif not line.startswith("|---"):
            found.append((head, cells))
    return found


def numbers(cell):
    """The gain and its standard error, or a share of elements."""
    return [float(number) for number in re.findall(r"-?[\d.]+", cell)]


class Page(unittest.TestCase):
    def setUp(self):
        self.page = tables(PAGE.read_text().split(MARK)[1])

    def test_two_batches_of_the_program_give_the_rows_of_the_page_and_gains_within_six_standard_errors(self):
        done = subprocess.run([PROGRAM, str(BATCHES)], capture_output=True, text=True, check=True)
        measured = tables(done.stdout)
        self.assertEqual([(h, c[:2]) for h, c in self.page], [(h, c[:2]) for h, c in measured])
        for (head, cells), (_, again) in zip(self.page, measured):
            for column, cell, other in zip(head[2:], cells[2:], again[2:]):
                error = (numbers(cell) + [0.1])[1]  # of a share of saturated elements: 0.1
                tolerance = 6 * error * (PAGE_BATCHES / BATCHES) ** 0.5 + 0.02 if head[1] != "n" else 0.3
                self.assertAlmostEqual(numbers(cell)[0], numbers(other)[0], delta=tolerance, msg=(cells[:2], column))

    def test_stochastic_rounding_has_the_gain_1_on_all_data_just_where_nothing_saturates_or_integers_have_8_bits(self):
        gains = {}
        for head, cells in self.page:
            bold = [cell.startswith("**") for name, cell in zip(head, cells) if name == "`stochastic`"]
            gains.setdefault((cells[0].strip("`"), cells[1].strip("`")), []).extend(bold)
        e4m3 = "nvfp4", "nv_e1m2", "tetrajet2", "if4", "mixfp4", "razer"
        e8m0 = "mxfp4", "mx_e1m2", "mxint8", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3"
        binary32 = "e2m1_f32", "e1m2_f32", "int8_f32"
        stated = {(f, "scale_up") for f in e4m3} | {(f, "mx_ceil") for f in e8m0} | {(f, "default") for f in binary32}
        stated |= {("mxint8", "default"), ("mxint8", "mx_even")}
        stated |= {("int8_f32", "mse_search"), ("int8_f32", "mae_search")}
        self.assertEqual({row for row, bold in gains.items() if len(bold) == 3 and all(bold)}, stated)

    def test_eden_has_the_gain_1_in_every_preset_on_all_data(self):
        rows = [cells for _, cells in self.page if cells[1].startswith("`eden`")]
        self.assertGreater(len(rows), 10)
        self.assertEqual([cells[0] for cells in rows if not all(cell.startswith("**") for cell in cells[2:])], [])

    def test_single_elements_under_eden_keep_a_bias_that_shrinks_with_n_unless_few_elements_are_not_0(self):
        rows = [cells[2:] for head, cells in self.page if head[1] == "n"]
        self.assertEqual(len(rows), 8)
        for gauss, _, few in rows:
            self.assertLess(numbers(gauss)[0], 0.4)
            self.assertGreater(numbers(few)[0], 2.4)
        for first, *_, last in (rows[:4], rows[4:]):
            self.assertLess(numbers(last[0])[0], numbers(first[0])[0] / 5)

    def test_ms_eden_has_a_gain_other_than_1_in_transform_runs_of_several_blocks(self):
        gains = {cells[1]: cells[2:] for _, cells in self.page}
        bold = {n: [cell.startswith("**") for cell in gains[f"`quantize_ms_eden`, n = {n}"]] for n in (16, 128, 256)}
        self.assertEqual(bold, {16: [True] * 3, 128: [False] * 3, 256: [False] * 3})


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
