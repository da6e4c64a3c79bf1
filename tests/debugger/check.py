# ufp4 - runs in gdb: the printers show what the library's own conversions return; the Natvis file's expressions have the same values.
# SPDX-License-Identifier: Apache-2.0
#
#   gdb -batch -ex 'source cmake/debugger/ufp4_gdb.py' -ex 'source tests/debugger/check.py' PROGRAM      from the source folder
import math
import re
import xml.etree.ElementTree

import gdb

failures = []


def equal(what, got, wanted):
    if got != wanted and not (got != got and wanted != wanted):
        failures.append(f"{what}: {got!r}, wanted {wanted!r}")


def text(name):
    return gdb.parse_and_eval(name).format_string(max_elements=0)


def floats(name):
    vector = gdb.parse_and_eval(name)["_M_impl"]
    begin, end = vector["_M_start"], vector["_M_finish"]
    return [float(begin[i]) for i in range(int(end - begin))]


gdb.execute("set breakpoint pending off")
gdb.execute("set confirm off")
gdb.execute("break here")
gdb.execute("run", to_string=True)
gdb.execute("up", to_string=True)

for name, wanted in {"a": "-1.5 (code 0xb)", "b": "1.25 (code 0x5)", "c": "8 (code 0x6)", "d": "-3 (code 0xd)", "e": "448 (code 0x7e)",
                     "f": "114688 (code 0xfe)", "g": "0.25 (code 0x7d)", "h": "3 (code 0x4040)", "i": "-0.5 (code 0xb800)"}.items():
    equal(name, text(name), wanted)


def check_matrix(name, heading, expected):
    value = gdb.parse_and_eval(name)
    printer = gdb.default_visualizer(value)
    shown = re.sub(r"tensor scale [^,]+", "tensor scale T", printer.to_string())
    equal(f"{name}: heading", shown, heading)
    children = dict(printer.children())
    for row in range(4):
        wanted = " ".join(f"{v:g}" for v in expected[40 * row:40 * row + 8]) + " ..."
        equal(f"{name}: row {row}", children[f"row {row}"], wanted)


two_level = "6 x 40, blocks of 1 x 16, e4m3 scales, tensor scale T, hadamard<16>"
check_matrix("matrix", two_level, floats("decoded"))
check_matrix("view", two_level, floats("decoded"))
check_matrix("any", "6 x 40, blocks of 1 x 16, f32 scales", floats("plain"))
check_matrix("segments", "6 x 40, blocks of 1 x 16, e4m3 scales, outer scale of each segment", floats("apart"))

# Every code, by the printer's functions and by the expressions of the Natvis file.
library = {"fp4<E2M1>": "e2m1", "fp4<E1M2>": "e1m2", "fp4<E3M0>": "e3m0", "int4": "integer", "e4m3": "e4", "ue5m3": "ue5", "e8m0": "e8"}
for type_, name in library.items():
    for code, wanted in enumerate(floats(name)):
        equal(f"{type_}, code {code}", float(NUMBERS[type_](code)), wanted)

namespace = "{http://schemas.microsoft.com/vstudio/debugger/natvis/2010}"
natvis = xml.etree.ElementTree.parse("cmake/debugger/ufp4.natvis").getroot()
version = re.search(r"ufp4::(v\w+)::", str(gdb.parse_and_eval("a").type))[1]
evaluated = 0
for entry in natvis.iter(namespace + "Type"):
    plain = entry.get("Name").replace(f"ufp4::{version}::", "")
    if "ufp4::" in plain:
        failures.append(f"ufp4.natvis: {entry.get('Name')}: not of {version}")
    for code, wanted in enumerate(floats(library[plain])) if plain in library else ():
        for display in entry.iter(namespace + "DisplayString"):
            condition, expression = display.get("Condition"), re.search(r"\{(.*)\}", display.text or "")
            at = lambda e: gdb.parse_and_eval(e.replace("bits_", f"{code}"))
            if condition and not at(condition):
                continue
            got = math.nan if not expression else float(at(expression[1]))
            equal(f"ufp4.natvis: {plain}, code {code}", 2.0 ** got if display.text.startswith("2^") else got, wanted)
            evaluated += 1
            break
equal("codes of the Natvis file", evaluated, 4 * 16 + 2 * 256)
for member in ("shape_.rows", "shape_.cols", "shape_.format.block.rows", "shape_.format.scale", "shape_.tensor_scale", "shape_.transform.n",
               "codes_.size_", "codes_.data_"):
    gdb.parse_and_eval("matrix." + member)  # what the file names exists

for failure in failures:
    print("FAILED:", failure)
print(f"debugger: {len(failures)} failures")
gdb.execute(f"quit {1 if failures else 0}")
