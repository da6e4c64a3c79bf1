# ufp4 - the library of ufp4.h from Python's ctypes, without a package; prints what first.c prints.
# SPDX-License-Identifier: Apache-2.0
#
#   g++ -std=c++20 -O3 -shared -fPIC -I include cmake/c.cpp -Wl,--version-script=cmake/c.map -o libufp4.so -pthread
#   python3 examples/c/first.py ./libufp4.so
import ctypes as c
import sys


class Matrix(c.Structure):
    _fields_ = [("data", c.c_void_p), ("rows", c.c_size_t), ("cols", c.c_size_t), ("row_stride", c.c_ssize_t),
                ("col_stride", c.c_ssize_t), ("dtype", c.c_int32)]


class Transform(c.Structure):
    _fields_ = [("n", c.c_uint32), ("rounds_to_bf16", c.c_uint32), ("signs", c.c_uint32 * 8)]


class Format(c.Structure):
    _fields_ = [("values", c.c_float * 16), ("scale", c.c_int32), ("block_rows", c.c_int32),
                ("block_cols", c.c_int32), ("has_tensor_scale", c.c_int32), ("element", c.c_int32)]


class Quantized(c.Structure):
    _fields_ = [("format", Format), ("transform", Transform), ("rows", c.c_size_t), ("cols", c.c_size_t),
                ("codes", c.c_void_p), ("scales", c.c_void_p), ("codes_size", c.c_size_t),
                ("scales_size", c.c_size_t), ("tensor_scale", c.c_float), ("layout", c.c_int32)]


class GemmOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("bias", c.c_void_p), ("alpha", c.c_float), ("beta", c.c_float),
                ("accumulate", c.c_int32)]


library = c.CDLL(sys.argv[1])
library.ufp4_error_message.restype = c.c_char_p


def require(status):
    if status != 0:
        raise ValueError(library.ufp4_error_message().decode())


def matrix(values, rows, cols):
    return Matrix(c.addressof(values), rows, cols, cols, 1, 0)


def quantized(preset, x, transform):
    form, q = Format(), Quantized()
    require(library.ufp4_preset(preset, c.byref(form)))
    require(library.ufp4_quantized_init(c.byref(form), c.c_size_t(x.rows), c.c_size_t(x.cols), c.byref(transform),
                                        c.byref(q)))
    q.memory = c.create_string_buffer(q.codes_size), (c.c_float * (q.scales_size // 4))()
    q.codes, q.scales = (c.addressof(memory) for memory in q.memory)
    require(library.ufp4_quantize(None, c.byref(x), None, c.byref(q)))
    return q


M, N, K = 2, 3, 64
x = (c.c_float * (M * K))(*(i * 7919 % 1009 - 504 for i in range(M * K)))
w = (c.c_float * (N * K))(*(i * 31 % 17 / 8 - 1 for i in range(N * K)))
y = (c.c_float * (M * N))()
ym = matrix(y, M, N)
rht = Transform()
require(library.ufp4_random_hadamard(16, c.c_uint64(42), c.byref(rht)))
qx, qw = quantized(b"e1m2_f32", matrix(x, M, K), rht), quantized(b"e1m2_f32", matrix(w, N, K), rht)
exact_blocks = GemmOptions(c.sizeof(GemmOptions), None, 1, 0, 1)
require(library.ufp4_gemm(None, c.byref(qx), c.byref(qw), c.byref(ym), c.byref(exact_blocks)))
for i in range(M):
    print(" ".join(f"{value:10.3f}" for value in y[i * N:(i + 1) * N]))
ym.cols = 2
try:
    require(library.ufp4_gemm(None, c.byref(qx), c.byref(qw), c.byref(ym), None))
except ValueError as error:
    print(error)
