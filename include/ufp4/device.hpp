// ufp4 - everything that may be used in a kernel: values, rounding, Hadamard transforms, the codec of a block.
// SPDX-License-Identifier: Apache-2.0
//
// Calls no runtime API, does not allocate and does not throw. With a GPU compiler functions are __host__ __device__.
// NVRTC compiles it with -I<include> -I<include>/ufp4/rtc --device-as-default-execution-space (docs/gpu.md).
//
// A GPU compiler also gets functions for several threads. The namespace tells which threads must call a function:
//
// | ufp4::gpu::thread | one thread, with values in its registers                             |
// | ufp4::gpu::warp   | every lane of the wave                                               |
// | ufp4::gpu::block  | every thread of the block, with shared memory that the caller passes |
#pragma once

#include <ufp4/block/block_codec.hpp>
#include <ufp4/block/compat.hpp>
#include <ufp4/block/layouts.hpp>
#include <ufp4/block/presets.hpp>
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/int8.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/format/table_element.hpp>
#include <ufp4/hadamard/transform.hpp>
#include <ufp4/round/round_to_grid.hpp>

#if defined(UFP4_GPU)
#include <ufp4/gpu/block/transpose.hpp>
#include <ufp4/gpu/thread/decode.hpp>
#include <ufp4/gpu/thread/elements.hpp>
#include <ufp4/gpu/thread/round.hpp>
#include <ufp4/gpu/thread/scale.hpp>
#include <ufp4/gpu/warp/hadamard_run.hpp>
#include <ufp4/gpu/warp/reduce.hpp>
#endif
