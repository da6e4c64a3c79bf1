// ufp4 - every operation on a GPU, for any vendor: included by cuda.hpp and hip.hpp after their table of kernels.
// SPDX-License-Identifier: Apache-2.0
//
// An operation that is called instantiates its kernels, those that the types of its arguments do not exclude. Programs
// that call many compile all of them once (docs/gpu.md, "Faster builds").
#pragma once

#include <ufp4/device.hpp>
#include <ufp4/gpu/dequantize.hpp>
#include <ufp4/gpu/linear.hpp>
