// ufp4 - the PTX interpreter: tensor memory.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/tensor_memory.hpp"

#include "gpu/ptx/state.hpp"

#include <algorithm>

namespace ptx {

void tensor_memory::reset() {
  columns_.assign(column_count, {});
  blocks_ = 0;
  may_allocate_ = true;
}

void tensor_memory::require_blocks(unsigned blocks) {
  if (blocks_ != 0 && blocks_ != blocks) reject("is mixed with instructions of another cta_group");
  blocks_ = blocks;
}

unsigned tensor_memory::allocate(unsigned columns, unsigned blocks) {
  require_blocks(blocks);
  if (!may_allocate_) reject("allocates after tcgen05.relinquish_alloc_permit");
  if (columns < 32 || columns > column_count || (columns & (columns - 1)) != 0)
    reject("allocates a number of columns that is not 32, 64, 128, 256 or 512");
  words_.resize(std::size_t{column_count} * lane_count);
  for (unsigned first = 0; first < column_count; first += columns) {
    const auto begin = columns_.begin() + first;
    if (std::any_of(begin, begin + columns, [](const column_state& c) { return c.allocated; })) continue;
    for (unsigned c = first; c < first + columns; ++c) columns_[c].allocated = true;
    return first;
  }
  reject("allocates more columns than are free");
}

void tensor_memory::release(unsigned first, unsigned columns) {
  each(first, columns, [](column_state& c) {
    if (c.writers != 0 || c.readers != 0 || c.loads != 0) reject("releases columns that an instruction uses");
    c = {};
  });
}

bool tensor_memory::is_empty() const {
  return std::none_of(columns_.begin(), columns_.end(), [](const column_state& c) { return c.allocated; });
}

template <class F>
void tensor_memory::each(unsigned first, unsigned columns, F f) {
  if (first + columns > column_count) reject("uses columns of tensor memory above 511");
  for (unsigned c = first; c < first + columns; ++c) {
    if (!columns_[c].allocated)
      reject("uses column " + std::to_string(c) + " of tensor memory, which is not allocated");
    f(columns_[c]);
  }
}

void tensor_memory::begin_sums(unsigned first, unsigned columns, bool adds) {
  const std::uint32_t sums = columns << 16 | first;
  each(first, columns, [&](column_state& c) {
    if (c.loads != 0) reject("overwrites sums that a tcgen05.ld reads");
    if (c.readers != 0) reject("overwrites scales of a product that has not been waited for");
    if (c.writers != 0 && c.sums != sums) reject("overwrites other sums or scales that have not been waited for");
    if (adds && !c.valid) reject("adds to uninitialized tensor memory");
    c.valid = true;
    c.sums = sums;
    ++c.writers;
  });
}
void tensor_memory::begin_copy(unsigned first, unsigned columns) {
  each(first, columns, [](column_state& c) {
    if (c.loads != 0) reject("overwrites what a tcgen05.ld reads");
    if (c.readers != 0) reject("overwrites scales of a product that has not been waited for");
    if (c.writers != 0) reject("overwrites columns that have not been waited for");
    c.valid = true;
    c.sums = 0;
    ++c.writers;
  });
}
void tensor_memory::begin_scales(unsigned first, unsigned columns) {
  each(first, columns, [](column_state& c) {
    if (!c.valid) reject("reads scales from uninitialized tensor memory");
    if (c.writers != 0 && c.sums != 0) reject("reads sums as scales");
    ++c.readers;
  });
}
void tensor_memory::begin_load(unsigned first, unsigned columns) {
  each(first, columns, [](column_state& c) {
    if (c.writers != 0) reject("reads columns of tensor memory whose writers have not been waited for");
    if (!c.valid) reject("reads uninitialized tensor memory");
    ++c.loads;
  });
}
void tensor_memory::end_write(unsigned first, unsigned columns) {
  for (unsigned c = first; c < first + columns; ++c) --columns_[c].writers;
}
void tensor_memory::end_scales(unsigned first, unsigned columns) {
  for (unsigned c = first; c < first + columns; ++c) --columns_[c].readers;
}
void tensor_memory::end_load(unsigned first, unsigned columns) {
  for (unsigned c = first; c < first + columns; ++c) --columns_[c].loads;
}

}  // namespace ptx
