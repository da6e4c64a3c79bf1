# ufp4 - gdb prints the library's numbers by value, and quantized matrices by shape, format and first values.
# SPDX-License-Identifier: Apache-2.0
#
#   (gdb) source ufp4/cmake/debugger/ufp4_gdb.py        once; or that line in ~/.gdbinit
#
# Reads memory and calls no function of the program, so it works on core dumps too.
import math
import re
import struct

import gdb
import gdb.printing

ROWS, COLS = 4, 8  # of the first values


def small_float(bits, exponent_bits, mantissa_bits, bias, signed, nan):
    """The value of a small float: numerics 1 and 3. nan: its codes without the sign."""
    magnitude = bits & ((1 << exponent_bits + mantissa_bits) - 1)
    sign = -1.0 if signed and bits >> exponent_bits + mantissa_bits & 1 else 1.0
    if magnitude in nan:
        return float("nan")
    exponent, mantissa = magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (mantissa + (1 << mantissa_bits)) * 2.0 ** (exponent - bias - mantissa_bits)


def int8(bits):
    """Two's complement."""
    return (bits ^ 0x80) - 0x80


def binary32(x):
    """x rounded to binary32, as the library computes."""
    return struct.unpack("<f", struct.pack("<f", x))[0] if abs(x) < 3.4028235677973366e38 else math.copysign(math.inf, x) if x == x else x


NUMBERS = {
    "fp4<E2M1>": lambda b: small_float(b, 2, 1, 1, True, ()),
    "fp4<E1M2>": lambda b: small_float(b, 1, 2, 1, True, ()),
    "fp4<E3M0>": lambda b: small_float(b, 3, 0, 3, True, ()),
    "int4": lambda b: (b ^ 8) - 8,
    "scaled_int8<0>": int8,
    "scaled_int8<6>": lambda b: int8(b) / 64,
    "e4m3": lambda b: small_float(b, 4, 3, 7, True, (0x7F,)),
    "ue5m3": lambda b: small_float(b, 5, 3, 15, False, (0xFF,)),
    "e8m0": lambda b: float("nan") if b == 0xFF else 2.0 ** (b - 127),
    "e6m2": lambda b: float("nan") if b == 0xFF else (4 + (b & 3)) * 2.0 ** ((b >> 2) - 50),
    "bf16": lambda b: struct.unpack("<f", struct.pack("<I", b << 16))[0],
    "fp16": lambda b: struct.unpack("<e", struct.pack("<H", b))[0],
}
SCALES = {"f32": (4, lambda b: struct.unpack("<f", struct.pack("<I", b))[0]), "bf16": (2, NUMBERS["bf16"]), "e4m3": (1, NUMBERS["e4m3"]),
          "ue5m3": (1, NUMBERS["ue5m3"]), "e8m0": (1, NUMBERS["e8m0"]), "e6m2": (1, NUMBERS["e6m2"])}
# Elements of a byte, by the name of their byte_element.
BYTES = {"int8": int8, "e4m3": NUMBERS["e4m3"], "e3m2": lambda b: small_float(b, 3, 2, 3, True, ()),
        "e2m3": lambda b: small_float(b, 2, 3, 1, True, ()),
        "e5m2": lambda b: small_float(b, 5, 2, 15, True, (0x7D, 0x7E, 0x7F)) if b & 0x7F != 0x7C else math.copysign(math.inf, 0x7F - b)}


def plain_name(type_):
    """Without namespaces and the version of the library: ufp4::v0_1::int4 is int4."""
    return re.sub(r"ufp4::(?:detail::)?(?:v\w+::)?", "", type_.strip_typedefs().unqualified().name or "")


def name_of(enumerator):
    return str(enumerator).split("::")[-1]


class Number:
    def __init__(self, value, decode):
        self.value, self.decode = value, decode

    def to_string(self):
        bits = int(self.value["bits_"])
        return f"{self.decode(bits):g} (code {bits:#x})"


class Matrix:
    """quantized_matrix, any_quantized, and their views."""

    def __init__(self, value):
        shape = value["shape_"]
        form = shape["format"]
        self.rows, self.cols = int(shape["rows"]), int(shape["cols"])
        self.byte, self.unit = name_of(form["byte"]), float(form["grid"]["unit"])
        choice = form["choice"]
        self.more = int(choice["count"])
        grids = [form["grid"]] + [choice["more"][i]["grid"] for i in range(self.more)]
        self.grids = [[float(grid["value"][i]) for i in range(16)] for grid in grids]
        self.factors = [1.0] + [float(choice["more"][i]["factor"]) for i in range(self.more)]
        block = form["block"]
        self.height, self.length = int(block["rows"]), int(block["cols"])
        self.groups = [n for n in (int(block["group"]["wide"]), int(block["group"]["narrow"])) if n != 0]
        self.scale = name_of(form["scale"])
        outer = form["outer"]
        self.span, self.tensor_scale = name_of(outer["span"]), float(shape["tensor_scale"])
        self.outer_type, self.segment = name_of(outer["type"]), int(outer["segment"])
        self.run = int(shape["transform"]["n"])
        unit = max(self.length, self.run)
        self.padded = (self.cols + unit - 1) // unit * unit
        self.codes, self.scales = self.memory(value["codes_"]), self.memory(value["scales_"])

    @staticmethod
    def memory(span):
        """The address in an owned buffer, or in a std::span of libstdc++ or libc++."""
        for name in ("data_", "_M_ptr", "__data_", "__data"):
            if any(f.name == name for f in span.type.strip_typedefs().fields()):
                return int(span[name])
        raise gdb.error(f"ufp4: {span.type} has no known pointer")

    @staticmethod
    def bits(address, size):
        return int.from_bytes(gdb.selected_inferior().read_memory(address, size).tobytes(), "little")

    def block_bytes(self):
        """What is stored for a block, numerics 5: scale, number of the grid, one-bit exponents."""
        exponents = sum(self.length // group for group in self.groups)
        if exponents:
            return 2 if exponents <= 8 else 4
        has_sign = self.scale in ("f32", "bf16", "e4m3")
        return SCALES[self.scale][0] + (self.more > (1 if has_sign else 0))

    def block(self, bits, col):
        """The grid of a block with these stored bits, its scale, and two to the exponents of column `col` in it."""
        size, decode = SCALES[self.scale]
        grid, exponent = 0, 0
        if self.more:
            shift = 8 * size - (self.block_bytes() == size)
            grid, bits = min(bits >> shift, self.more), bits & ((1 << shift) - 1)
        at = 8
        for group in self.groups:
            exponent += bits >> at + col // group & 1
            at += self.length // group
        return self.grids[grid], binary32(decode(bits & ((1 << 8 * size) - 1)) * self.factors[grid]), 2.0 ** exponent

    def outer(self, row, col):
        """The scale above the block scales, and the address of those of the row."""
        blocks = self.padded // self.length * self.block_bytes()
        if self.span not in ("row", "segment"):
            return self.tensor_scale, self.scales + row // self.height * blocks
        width, decode = SCALES[self.outer_type]
        covered = self.padded if self.span == "row" else self.segment
        first, count = (blocks + width - 1) // width * width, (self.padded + covered - 1) // covered
        strip = self.scales + row // self.height * (first + count * width)
        return decode(self.bits(strip + first + col // covered * width, width)), strip

    def element(self, row, col):
        outer, strip = self.outer(row, col)
        size, at = self.block_bytes(), row * self.padded + col
        grid, scale, power = self.block(self.bits(strip + size * (col // self.length), size), col % self.length)
        effective = binary32(scale * outer)
        if self.byte != "none":
            value = BYTES[self.byte](self.bits(self.codes + at, 1))
            return binary32(value * (self.unit if self.byte == "int8" else 1) * effective)
        code = self.bits(self.codes + at // 2, 1) >> 4 * (col % 2) & 15
        return binary32(grid[code] * power * effective)

    def to_string(self):
        text = f"{self.rows} x {self.cols}, blocks of {self.height} x {self.length}, {self.scale} scales"
        if self.span == "tensor":
            text += f", tensor scale {self.tensor_scale:g}"
        elif self.span != "none":
            text += f", outer scale of each {self.span}"
        if self.more:
            text += f", one of {self.more + 1} grids a block"
        if self.groups:
            text += f", exponents of {' and '.join(map(str, self.groups))} columns"
        if self.run != 1:
            text += f", hadamard<{self.run}>"
        return text

    def children(self):
        if self.byte != "none":
            yield "values", f"-127 to 127 times {self.unit:g}" if self.byte == "int8" else self.byte
        for i, grid in enumerate(self.grids if self.byte == "none" else ()):
            factor = f", times {self.factors[i]:g}" if i else ""
            yield f"grid {i}" if self.more else "grid", " ".join(f"{v:g}" for v in grid) + factor
        for row in range(min(self.rows, ROWS)):
            values = " ".join(f"{self.element(row, col):g}" for col in range(min(self.cols, COLS)))
            yield f"row {row}", values + (" ..." if self.cols > COLS else "")


def printer_of(value):
    name = plain_name(value.type)
    if name in NUMBERS:
        return Number(value, NUMBERS[name])
    if re.match(r"(quantized_(matrix|view)<|any_quantized(_view)?$)", name) and not name.startswith("gpu::"):
        return Matrix(value)
    return None


printer_of.name, printer_of.enabled = "ufp4", True
gdb.printing.register_pretty_printer(gdb.current_objfile(), printer_of, replace=True)
