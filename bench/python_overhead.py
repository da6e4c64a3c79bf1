# ufp4 - what a product costs in Python beside the same product of the C interface, in one process; and a small call.
# SPDX-License-Identifier: Apache-2.0
#
#   g++ -std=c++20 -O3 -shared -fPIC -I include cmake/c.cpp -Wl,--version-script=cmake/c.map -o libufp4.so -pthread
#   python bench/python_overhead.py ./libufp4.so [THREADS]      # needs the package: pip install ./examples/python
#
# Both calls quantize nothing: operands are e1m2_f32, C is float32 and exists, the mode is fast. The calls alternate, so
# that other work on the machine disturbs both alike. Prints medians and minima, and the ratio of each.
import ctypes as c
import platform
import statistics
import sys
import time

import numpy as np

import ufp4


class Matrix(c.Structure):
    _fields_ = [("data", c.c_void_p), ("rows", c.c_size_t), ("cols", c.c_size_t), ("row_stride", c.c_ssize_t),
                ("col_stride", c.c_ssize_t), ("dtype", c.c_int32)]


class Format(c.Structure):
    _fields_ = [("values", c.c_float * 16), ("scale", c.c_int32), ("block_rows", c.c_int32),
                ("block_cols", c.c_int32), ("has_tensor_scale", c.c_int32), ("element", c.c_int32)]


class Quantized(c.Structure):
    _fields_ = [("format", Format), ("transform", c.c_uint32 * 10), ("rows", c.c_size_t), ("cols", c.c_size_t),
                ("codes", c.c_void_p), ("scales", c.c_void_p), ("codes_size", c.c_size_t),
                ("scales_size", c.c_size_t), ("tensor_scale", c.c_float), ("layout", c.c_int32)]


class Context(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("isa", c.c_char_p), ("executor", c.c_void_p),
                ("executor_state", c.c_void_p), ("threads", c.c_int32)]


library = c.CDLL(sys.argv[1])
library.ufp4_error_message.restype = c.c_char_p
threads = int(sys.argv[2]) if len(sys.argv) > 2 else 1
context = Context(c.sizeof(Context), None, None, None, threads)


def described(q):
    """The matrix of the package as the C interface has it, in the same memory."""
    form, out = Format(), Quantized()
    library.ufp4_preset(b"e1m2_f32", c.byref(form))
    library.ufp4_quantized_init(c.byref(form), c.c_size_t(q.shape[0]), c.c_size_t(q.shape[1]), None, c.byref(out))
    out.codes, out.scales = q.codes.ctypes.data, q.scales.ctypes.data
    return out


def compare(n, seconds):
    """Seconds of calls in Python and in C, which alternate."""
    rng = np.random.default_rng(0)
    a, b = (ufp4.quantize(rng.standard_normal((n, n), np.float32), "e1m2_f32") for _ in range(2))
    y, z = (np.empty((n, n), np.float32) for _ in range(2))
    ca, cb, cz = described(a), described(b), Matrix(z.ctypes.data, n, n, n, 1, 0)
    arguments = c.byref(context), c.byref(ca), c.byref(cb), c.byref(cz), None

    def python():
        ufp4.matmul(a, b, out=y, threads=threads)

    def native():
        if library.ufp4_gemm(*arguments) != 0:
            sys.exit(library.ufp4_error_message().decode())

    times = {python: [], native: []}
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times[native]) < 20:
        for call in (python, native) if len(times[native]) % 2 else (native, python):
            began = time.perf_counter_ns()
            call()
            times[call].append((time.perf_counter_ns() - began) * 1e-9)
    assert np.array_equal(y.view(np.uint32), z.view(np.uint32))
    return times[python], times[native]


print(f"Python {platform.python_version()}, numpy {np.__version__}, ufp4 {ufp4.__version__}, threads: {threads}")
for n, seconds, unit, name in ((1024, 10, 1e3, "ms"), (16, 3, 1e6, "us")):
    python, native = compare(n, seconds)
    for what, of in (("median", statistics.median), ("minimum", min)):
        p, q = of(python) * unit, of(native) * unit
        print(f"{n:4}^3  {what:8} Python {p:8.3f} {name}, C {q:8.3f} {name}: ratio {p / q:.3f}, "
              f"difference {p - q:.3f} {name} ({len(native)} calls each)")
