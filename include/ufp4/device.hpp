// ufp4 - everything that is legal inside a kernel: values, rounding, the Hadamard transform of a run, one block's codec.
// SPDX-License-Identifier: Apache-2.0
//
// No launches, no runtime API, no allocation, no exceptions; functions are __host__ __device__ under nvcc and hipcc.
#pragma once

#include <ufp4/block/block_codec.hpp>
#include <ufp4/block/compat.hpp>
#include <ufp4/block/layouts.hpp>
#include <ufp4/block/presets.hpp>
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/format/table_element.hpp>
#include <ufp4/hadamard/transform.hpp>
#include <ufp4/round/round_to_grid.hpp>
