// ufp4 - benches against other libraries: AOCL-DLP, bf16 times weights in signed 4 bits with a scale for each 32.
// SPDX-License-Identifier: Apache-2.0
#include <aocl_dlp.h>

#include <algorithm>
#include <memory>

#include "side_by_side.hpp"

namespace {

/// The product with weights in the library's own order; the numbers in them do not change the time.
class bf16_by_s4 {
 public:
  explicit bf16_by_s4(const peers::product& p) : rows_(static_cast<md_t>(p.m)), left_(p.m * peers::k, 0x3F80) {
    const std::vector<std::int8_t> codes(peers::n * peers::k / 2, 0x21);
    const md_t bytes = static_cast<md_t>(
        aocl_get_reorder_buf_size_bf16s4f32of32('r', 'n', 'B', size(peers::k), size(peers::n), nullptr));
    const std::size_t count = peers::copies(p, peers::n * peers::k * 9 / 16);
    for (std::size_t i = 0; i < count; ++i) {
      right_.emplace_back(static_cast<std::size_t>(bytes));
      aocl_reorder_bf16s4f32of32('r', 'n', 'B', codes.data(), right_.back().data(), size(peers::k), size(peers::n),
                                 size(peers::n), nullptr);
      scales_.emplace_back(peers::n * peers::k / group, 0.5f);
    }
    result_.resize(p.m * peers::n);
  }
  std::size_t weights() const { return right_.size(); }
  void operator()(std::size_t i) {
    dlp_sf_t scale{};
    scale.scale_factor = scales_[i].data();
    scale.scale_factor_len = static_cast<md_t>(scales_[i].size());
    scale.scale_factor_type = DLP_F32;
    dlp_zp_t no_zero{};
    dlp_pre_op before{&no_zero, &scale, 1, group};
    dlp_metadata_t how{};
    how.pre_ops = &before;
    aocl_gemm_bf16s4f32of32('r', 'n', 'n', rows_, size(peers::n), size(peers::k), 1.0f, left_.data(), size(peers::k),
                            'n', right_[i].data(), size(peers::n), 'r', 0.0f, result_.data(), size(peers::n), &how);
  }

 private:
  static constexpr md_t group = 32;
  static md_t size(std::size_t n) { return static_cast<md_t>(n); }

  md_t rows_;
  std::vector<bfloat16> left_;
  std::vector<std::vector<std::int8_t>> right_;
  std::vector<std::vector<float>> scales_;
  std::vector<float> result_;
};

}  // namespace

int main(int argc, char** argv) {
  for (const peers::product& p : peers::products(argc, argv)) {
    bf16_by_s4 theirs(p);
    peers::compare(p, peers::ours<ufp4::bf16, ufp4::nvfp4>(p, "bf16 x nvfp4"),
                   {"AOCL-DLP bf16 x s4, blocks of 32", theirs.weights(), [&](std::size_t i) { theirs(i); }});
  }
}
