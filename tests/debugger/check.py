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
                     "f": "114688 (code 0xfe)", "g": "0.25 (code 0x7d)", "h": "3 (code 0x4040)", "i": "-0.5 (code 0xb800)",
                     "j": "3 (code 0xc6)", "k": "-100 (code 0x9c)", "l": "0.5 (code 0x20)"}.items():
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
check_matrix("any_view", "6 x 40, blocks of 1 x 16, f32 scales", floats("plain"))
check_matrix("segments", "6 x 40, blocks of 1 x 16, e4m3 scales, outer scale of each segment", floats("apart"))
check_matrix("wide", "6 x 40, blocks of 1 x 16, f32 scales", floats("bytes"))
check_matrix("ocp", "6 x 40, blocks of 1 x 32, e8m0 scales", floats("ocp_bytes"))
check_matrix("chosen", "6 x 40, blocks of 1 x 16, e4m3 scales, tensor scale T, one of 2 grids a block", floats("grids"))
check_matrix("exponents", "6 x 40, blocks of 1 x 64, e6m2 scales, exponents of 8 and 4 columns", floats("exponent_values"))
check_matrix("powers", "6 x 40, blocks of 1 x 32, e8m0 scales", floats("power_values"))
check_matrix("eight", "6 x 40, blocks of 1 x 32, e8m0 scales", floats("eight_values"))
check_matrix("six", "6 x 40, blocks of 1 x 32, e8m0 scales", floats("six_values"))
check_matrix("unsigned_scales", "6 x 40, blocks of 1 x 8, ue5m3 scales", floats("unsigned_values"))
check_matrix("halves", "6 x 40, blocks of 1 x 8, bf16 scales", floats("half_values"))

# Every code, by the printer's functions and by the expressions of the Natvis file.
library = {"fp4<E2M1>": "e2m1", "fp4<E1M2>": "e1m2", "fp4<E3M0>": "e3m0", "int4": "integer", "e4m3": "e4", "ue5m3": "ue5", "e8m0": "e8",
           "e6m2": "e6", "scaled_int8<0>": "byte", "scaled_int8<6>": "byte_q6", "bf16": "bfloat", "fp16": "half"}
for type_, name in library.items():
    for code, wanted in enumerate(floats(name)):
        equal(f"{type_}, code {code}", float(NUMBERS[type_](code)), wanted)

namespace = "{http://schemas.microsoft.com/vstudio/debugger/natvis/2010}"
natvis = xml.etree.ElementTree.parse("cmake/debugger/ufp4.natvis").getroot()
version = re.search(r"ufp4::(v\w+)::", str(gdb.parse_and_eval("a").type))[1]


def names_of(entry):
    """The types of an entry, without the version of the library."""
    names = [entry.get("Name")] + [other.get("Name") for other in entry.iter(namespace + "AlternativeType")]
    return [name.replace(f"ufp4::{version}::", "") for name in names]


def shown(entry, code):
    """What a number's entry shows for a code: of the first display string whose condition holds."""
    at = lambda e: gdb.parse_and_eval(e.replace("bits_", f"{code}"))
    for display in entry.iter(namespace + "DisplayString"):
        if display.get("Condition") is None or at(display.get("Condition")):
            expression = re.search(r"\{(.*)\}", display.text)
            return float(at(expression[1])) if expression else float(display.text)


def check_first_values(entry, name, expected):
    """The list of row 0 of a matrix's entry: one for its format, or none where the file says that it cannot show it."""
    at = lambda e, i=0: gdb.parse_and_eval(re.sub(r"\b(shape_|codes_|scales_)", rf"{name}.\1", e).replace("$i", str(i)))
    lists = [items for items in entry.iter(namespace + "IndexListItems") if at(items.get("Condition"))]
    equal(f"ufp4.natvis: {name}: lists", len(lists), 0 if expected is None else 1)
    for items in lists if expected is not None else ():
        size = int(at(items.find(namespace + "Size").text))
        values = [float(at(items.find(namespace + "ValueNode").text, i)) for i in range(size)]
        equal(f"ufp4.natvis: {name}", [f"{v:g}" for v in values], [f"{v:g}" for v in expected[:8]])


entries = {}
for entry in natvis.iter(namespace + "Type"):
    for name in names_of(entry):
        entries[name] = entry
        if "ufp4::" in name:
            failures.append(f"ufp4.natvis: {name}: not of {version}")
# All codes of 8 bits, and of 16 bits one in 97 with the special ones.
for type_, name in library.items():
    values = floats(name)
    codes = range(len(values)) if len(values) <= 256 else sorted({*range(0, len(values), 97), 0x7C00, 0xFC00, 0x7F80, 0xFF80, 0x7FFF, 1})
    for code in codes:
        equal(f"ufp4.natvis: {type_}, code {code}", shown(entries[type_], code), values[code])
owned, views = entries["quantized_matrix<*>"], entries["quantized_view<*>"]
equal("ufp4.natvis: any_quantized", entries["any_quantized"], owned)
equal("ufp4.natvis: any_quantized_view", entries["any_quantized_view"], views)
for name, expected in {"matrix": "decoded", "any": "plain", "wide": "bytes", "ocp": "ocp_bytes", "powers": "power_values",
                       "unsigned_scales": "unsigned_values", "halves": "half_values", "chosen": None, "exponents": None,
                       "segments": None, "eight": None, "six": None}.items():
    check_first_values(owned, name, expected and floats(expected))
check_first_values(views, "view", floats("decoded"))
check_first_values(views, "any_view", floats("plain"))
for member in ("shape_.rows", "shape_.cols", "shape_.format.block.rows", "shape_.format.scale", "shape_.tensor_scale", "shape_.transform.n"):
    gdb.parse_and_eval("matrix." + member), gdb.parse_and_eval("view." + member)  # what the file names exists

for failure in failures:
    print("FAILED:", failure)
print(f"debugger: {len(failures)} failures")
gdb.execute(f"quit {1 if failures else 0}")
