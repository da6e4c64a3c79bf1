# ufp4 - what a product costs in Python beside the same product of the C interface, in one process; and a small call.
# SPDX-License-Identifier: Apache-2.0
#
#   g++ -std=c++20 -O3 -shared -fPIC -I include cmake/c.cpp -Wl,--version-script=cmake/c.map -o libufp4.so -pthread
#   python bench/python_overhead.py ./libufp4.so [THREADS]      # needs the package: pip install ./examples/python
#
# Operands are e1m2_f32, C is float32 and exists, the mode is fast. "quantized": both calls quantize nothing; "float32":
# both quantize their operands first, Python into new matrices, C into memory that exists. The calls alternate, so that
# other work on the machine disturbs both alike. Prints medians and minima, and the ratio of each.
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


def require(status):
    if status != 0:
        sys.exit(library.ufp4_error_message().decode())


def compare(n, seconds, quantizes):
    """Seconds of calls in Python and in C, which alternate."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((n, n), np.float32) for _ in range(2))
    a, b, for_c, for_c_too = (ufp4.quantize(values, "e1m2_f32") for values in (x, w, x, w))
    y, z = (np.empty((n, n), np.float32) for _ in range(2))
    ca, cb, cz = described(for_c), described(for_c_too), Matrix(z.ctypes.data, n, n, n, 1, 0)
    sources = [(c.byref(Matrix(values.ctypes.data, n, n, n, 1, 0)), c.byref(q)) for values, q in ((x, ca), (w, cb))]
    arguments = c.byref(context), c.byref(ca), c.byref(cb), c.byref(cz), None

    def python():
        if quantizes:
            left, right = (ufp4.quantize(values, "e1m2_f32", threads=threads) for values in (x, w))
            ufp4.matmul(left, right, out=y, threads=threads)
        else:
            ufp4.matmul(a, b, out=y, threads=threads)

    def native():
        for source, result in sources if quantizes else ():
            require(library.ufp4_quantize(c.byref(context), source, None, result))
        require(library.ufp4_gemm(*arguments))

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
for n, seconds, unit, name, quantizes in ((1024, 10, 1e3, "ms", True), (1024, 10, 1e3, "ms", False),
                                          (16, 3, 1e6, "us", False)):
    python, native = compare(n, seconds, quantizes)
    for what, of in (("median", statistics.median), ("minimum", min)):
        p, q = of(python) * unit, of(native) * unit
        print(f"{n:4}^3, {'float32' if quantizes else 'quantized':9}  {what:8} Python {p:8.3f} {name}, C {q:8.3f} {name}: "
              f"ratio {p / q:.3f}, difference {p - q:.3f} {name} ({len(native)} calls each)")
