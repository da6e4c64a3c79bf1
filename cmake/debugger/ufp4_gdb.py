# ufp4 - gdb prints the library's numbers by value, and quantized matrices by shape, format and first values.
# SPDX-License-Identifier: Apache-2.0
#
#   (gdb) source ufp4/cmake/debugger/ufp4_gdb.py        once; or that line in ~/.gdbinit
#
# Reads memory and calls no function of the program, so it works on core dumps too.
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


NUMBERS = {
    "fp4<E2M1>": lambda b: small_float(b, 2, 1, 1, True, ()),
    "fp4<E1M2>": lambda b: small_float(b, 1, 2, 1, True, ()),
    "fp4<E3M0>": lambda b: small_float(b, 3, 0, 3, True, ()),
    "int4": lambda b: (b ^ 8) - 8,
    "e4m3": lambda b: small_float(b, 4, 3, 7, True, (0x7F,)),
    "ue5m3": lambda b: small_float(b, 5, 3, 15, False, (0xFF,)),
    "e8m0": lambda b: float("nan") if b == 0xFF else 2.0 ** (b - 127),
    "bf16": lambda b: struct.unpack("<f", struct.pack("<I", b << 16))[0],
    "fp16": lambda b: struct.unpack("<e", struct.pack("<H", b))[0],
}
SCALES = {"f32": (4, lambda b: struct.unpack("<f", struct.pack("<I", b))[0]), "bf16": (2, NUMBERS["bf16"]), "e4m3": (1, NUMBERS["e4m3"]),
          "ue5m3": (1, NUMBERS["ue5m3"]), "e8m0": (1, NUMBERS["e8m0"])}


def plain_name(type_):
    """Without the version of the library: ufp4::v0_1::int4 is int4."""
    return re.sub(r"ufp4::(?:v\w+::)?", "", type_.strip_typedefs().unqualified().name or "")


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
        self.grid = [float(form["grid"]["value"][i]) for i in range(16)]
        self.height, self.length = int(form["block"]["rows"]), int(form["block"]["cols"])
        self.scale = str(form["scale"]).split("::")[-1]
        outer = form["outer"]
        self.span, self.tensor_scale = str(outer["span"]).split("::")[-1], float(shape["tensor_scale"])
        self.outer_type, self.segment = str(outer["type"]).split("::")[-1], int(outer["segment"])
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

    def element(self, row, col):
        size, decode = SCALES[self.scale]
        blocks, outer = self.padded // self.length * size, self.tensor_scale
        strip = self.scales + row // self.height * blocks
        if self.span in ("row", "segment"):
            width, decode_outer = SCALES[self.outer_type]
            covered = self.padded if self.span == "row" else self.segment
            first, count = (blocks + width - 1) // width * width, (self.padded + covered - 1) // covered
            strip = self.scales + row // self.height * (first + count * width)
            outer = decode_outer(self.bits(strip + first + col // covered * width, width))
        scale = decode(self.bits(strip + size * (col // self.length), size))
        code = self.bits(self.codes + (row * self.padded + col) // 2, 1) >> 4 * (col % 2) & 15
        return self.grid[code] * (scale * outer)

    def to_string(self):
        text = f"{self.rows} x {self.cols}, blocks of {self.height} x {self.length}, {self.scale} scales"
        if self.span == "tensor":
            text += f", tensor scale {self.tensor_scale:g}"
        elif self.span != "none":
            text += f", outer scale of each {self.span}"
        if self.run != 1:
            text += f", hadamard<{self.run}>"
        return text

    def children(self):
        yield "grid", " ".join(f"{v:g}" for v in self.grid)
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
