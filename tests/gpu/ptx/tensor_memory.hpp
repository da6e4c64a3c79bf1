// ufp4 - the PTX interpreter: the tensor memory of a block, and what has to happen before it may be read or written.
// SPDX-License-Identifier: Apache-2.0
//
// 128 lanes of 512 columns of 32 bits. Instructions write whole columns, so what is known is known of columns:
//
// | allocated | by tcgen05.alloc; nothing else may use a column                                                  |
// | valid     | written, by a product or a copy                                                                  |
// | writers   | products and copies that write the column and have not been committed and waited for. Only       |
// |           | products of the same sums may follow them, and products that read copied scales                  |
// | readers   | products that read the column as scales and have not been waited for; no copy may overwrite them |
// | loads     | tcgen05.ld that have not been waited for; no product may overwrite what they read                |
#pragma once

#include <cstdint>
#include <vector>

namespace ptx {

class tensor_memory {
 public:
  static constexpr unsigned lane_count = 128, column_count = 512;

  void reset();
  /// The first of so many columns, a power of two.
  unsigned allocate(unsigned columns, unsigned blocks);
  void release(unsigned first, unsigned columns);
  void relinquish() { may_allocate_ = false; }
  bool is_empty() const;
  /// Every instruction of a kernel has the same number of thread blocks, 1 or 2.
  void require_blocks(unsigned blocks);

  /// The 128 words of a column.
  std::uint32_t* column(unsigned c) { return words_.data() + c * lane_count; }

  /// What an instruction does with `columns` from `first` on begins, or is complete.
  void begin_sums(unsigned first, unsigned columns, bool adds);
  void begin_copy(unsigned first, unsigned columns);
  void begin_scales(unsigned first, unsigned columns);
  void begin_load(unsigned first, unsigned columns);
  void end_write(unsigned first, unsigned columns);
  void end_scales(unsigned first, unsigned columns);
  void end_load(unsigned first, unsigned columns);

 private:
  struct column_state {
    bool allocated = false, valid = false;
    std::uint16_t writers = 0, readers = 0, loads = 0;
    std::uint32_t sums = 0;  ///< of the writers: first column and their number; 0: copies
  };
  template <class F>
  void each(unsigned first, unsigned columns, F f);

  std::vector<std::uint32_t> words_;
  std::vector<column_state> columns_;
  unsigned blocks_ = 0;
  bool may_allocate_ = true;
};

}  // namespace ptx
