// ufp4 - benches against other libraries: oneDNN, matmul with weights in the layout that it chooses.
// SPDX-License-Identifier: Apache-2.0
#include <dnnl.hpp>

#include <memory>

#include "side_by_side.hpp"

namespace {

using type = dnnl::memory::data_type;
using tag = dnnl::memory::format_tag;

struct operand_types {
  const char* name;
  type left, right, result;
  std::size_t bytes;  ///< of a weight
};

/// The product with all operands prepared; the numbers in them do not change the time.
class matmul {
 public:
  matmul(const peers::product& p, const operand_types& types) {
    const auto m = static_cast<dnnl_dim_t>(p.m), n = static_cast<dnnl_dim_t>(peers::n),
               k = static_cast<dnnl_dim_t>(peers::k);
    const dnnl::memory::desc left({m, k}, types.left, tag::ab), right({k, n}, types.right, tag::any),
        result({m, n}, types.result, tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc how(engine_, left, right, result);
#else
    const dnnl::matmul::primitive_desc how(dnnl::matmul::desc(left, right, result), engine_);
#endif
    primitive_ = dnnl::matmul(how);
    left_ = filled(how.src_desc());
    result_ = dnnl::memory(how.dst_desc(), engine_);
    for (std::size_t i = 0; i < peers::copies(p, peers::n * peers::k * types.bytes); ++i)
      right_.push_back(filled(how.weights_desc()));
  }
  std::size_t weights() const { return right_.size(); }
  void operator()(std::size_t i) {
    primitive_.execute(stream_, {{DNNL_ARG_SRC, left_}, {DNNL_ARG_WEIGHTS, right_[i]}, {DNNL_ARG_DST, result_}});
    stream_.wait();
  }

 private:
  dnnl::memory filled(const dnnl::memory::desc& what) {
    dnnl::memory memory(what, engine_);
    auto* bytes = static_cast<unsigned char*>(memory.get_data_handle());
    for (std::size_t i = 0; i < what.get_size(); ++i) bytes[i] = 0x3C;  // a small number in every type
    return memory;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::primitive primitive_;
  dnnl::memory left_, result_;
  std::vector<dnnl::memory> right_;
};

}  // namespace

int main(int argc, char** argv) {
  const operand_types bf16{"oneDNN bf16", type::bf16, type::bf16, type::f32, 2};
  const operand_types s8{"oneDNN u8 x s8", type::u8, type::s8, type::s32, 1};
  for (const peers::product& p : peers::products(argc, argv)) {
    matmul wide(p, bf16), narrow(p, s8);
    peers::compare(p, peers::ours<ufp4::bf16, ufp4::nvfp4>(p, "bf16 x nvfp4"),
                   {bf16.name, wide.weights(), [&](std::size_t i) { wide(i); }});
    peers::compare(p, peers::ours<ufp4::mxfp4, ufp4::mxfp4>(p, "mxfp4"),
                   {s8.name, narrow.weights(), [&](std::size_t i) { narrow(i); }});
  }
}
