// ufp4 - every operation on a GPU, for any vendor: included by cuda.hpp and hip.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/device.hpp>
#include <ufp4/gpu/buffer.hpp>
#include <ufp4/gpu/dequantize.hpp>
#include <ufp4/gpu/gemm.hpp>
#include <ufp4/gpu/gemm_grouped.hpp>
#include <ufp4/gpu/hadamard.hpp>
#include <ufp4/gpu/linear.hpp>
#include <ufp4/gpu/matrix.hpp>
#include <ufp4/gpu/quantize.hpp>
#include <ufp4/gpu/status.hpp>
