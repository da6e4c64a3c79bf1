// ufp4 - benches: the simplest implementations, compiled with -march=native, for comparison.
// SPDX-License-Identifier: Apache-2.0
//
// plain.cpp includes no header of ufp4: it is the only file here whose instruction set is chosen at compile time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plain {

/// binary32 to bf16, to nearest even.
void to_bf16(const float* x, std::size_t n, std::uint16_t* out);
/// Blocks of 16 to 4 bits with a binary32 scale: amax, one division, products, lrintf, two codes a byte.
void quantize(const float* x, std::size_t n, std::uint8_t* codes, float* scales);
/// The inverse, with a table of 16 values.
void dequantize(const std::uint8_t* codes, const float* scales, std::size_t n, float* out);
/// Radix-2 butterflies in place on runs of `length`, and a final factor.
void hadamard(float* x, std::size_t n, std::size_t length);

/// Whether Eigen is compiled in.
bool has_eigen();
/// C[m,n] = A[m,k] B[n,k]^T, row-major, with Eigen on one thread.
void eigen_float(const float* a, const float* b, float* c, std::size_t m, std::size_t n, std::size_t k);
void eigen_bf16(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* c, std::size_t m, std::size_t n,
                std::size_t k);

}  // namespace plain
