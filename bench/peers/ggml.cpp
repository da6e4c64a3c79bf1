// ufp4 - benches against other libraries: ggml, or ik_llama's version of it, mul_mat with weights in 4 bits.
// SPDX-License-Identifier: Apache-2.0
//
// Types are found by their names, because each version has others. Where the version can repack weights for its kernels
// ("repacked"), it does.
#include <ggml-backend.h>
#include <ggml.h>
#if __has_include(<ggml-cpu.h>)
#include <ggml-cpu.h>
#endif

#include <cstring>
#include <memory>
#include <string_view>

#include "side_by_side.hpp"

namespace {

/// The activations, the weights and the graph of every product.
class mul_mat {
 public:
  mul_mat(const peers::product& p, ggml_type type, ggml_backend_buffer_type_t where) {
    const auto n = static_cast<std::int64_t>(peers::n), k = static_cast<std::int64_t>(peers::k);
    const std::size_t bytes = ggml_row_size(type, k) * peers::n, count = peers::copies(p, bytes);
    std::vector<unsigned char> codes(bytes);
    ggml_quantize_chunk(type, peers::weights().data(), codes.data(), 0, n, k, nullptr);
    weights_ = context(count * ggml_tensor_overhead(), true);
    std::vector<ggml_tensor*> w(count);
    for (ggml_tensor*& t : w) t = ggml_new_tensor_2d(weights_.get(), type, k, n);
    buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(weights_.get(), where));
    // Memory for repacked weights marks the tensors that it can repack.
    if (buffer_ == nullptr || (where != ggml_backend_cpu_buffer_type() && w[0]->extra == nullptr)) return;
    for (ggml_tensor* t : w) ggml_backend_tensor_set(t, codes.data(), 0, bytes);
    const std::size_t floats = (p.m * (peers::n + 2 * peers::k) * 4 + 4096) * (count + 1);
    graphs_ = context(floats + count * (ggml_graph_overhead() + 8 * ggml_tensor_overhead()), false);
    ggml_tensor* x = ggml_new_tensor_2d(graphs_.get(), GGML_TYPE_F32, k, static_cast<std::int64_t>(p.m));
    const std::vector<float> numbers = peers::normal_numbers(p.m * peers::k, 2);
    std::memcpy(x->data, numbers.data(), numbers.size() * sizeof(float));
    for (ggml_tensor* t : w) {
      graph_.push_back(ggml_new_graph(graphs_.get()));
      ggml_build_forward_expand(graph_.back(), ggml_mul_mat(graphs_.get(), t, x));
    }
    plan_ = ggml_graph_plan(graph_[0], 1, nullptr);
    work_.resize(plan_.work_size);
    plan_.work_data = work_.data();
  }
  bool runs() const { return !graph_.empty(); }
  std::size_t weights() const { return graph_.size(); }
  void operator()(std::size_t i) { ggml_graph_compute(graph_[i], &plan_); }

 private:
  using owned_context = std::unique_ptr<ggml_context, decltype(&ggml_free)>;
  static owned_context context(std::size_t bytes, bool elsewhere) {
    return {ggml_init({bytes + 4096, nullptr, elsewhere}), &ggml_free};
  }
  owned_context weights_{nullptr, &ggml_free}, graphs_{nullptr, &ggml_free};
  std::unique_ptr<ggml_backend_buffer, decltype(&ggml_backend_buffer_free)> buffer_{nullptr, &ggml_backend_buffer_free};
  std::vector<ggml_cgraph*> graph_;
  ggml_cplan plan_{};
  std::vector<std::uint8_t> work_;
};

/// The memory in which this version repacks weights, or null.
ggml_backend_buffer_type_t repacked() {
#if __has_include(<ggml-cpu.h>)
  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts"));
  if (extra != nullptr)
    for (ggml_backend_buffer_type_t* b = extra(cpu); b != nullptr && *b != nullptr; ++b)
      if (std::strstr(ggml_backend_buft_name(*b), "REPACK") != nullptr) return *b;
#endif
  return nullptr;
}

template <class Format>
void compare_with(std::span<const peers::product> cases, const char* type_name, const char* our_name) {
  for (int t = 0; t < GGML_TYPE_COUNT; ++t) {
    const auto type = static_cast<ggml_type>(t);
    if (ggml_type_name(type) == nullptr || std::string_view(type_name) != ggml_type_name(type)) continue;
    for (ggml_backend_buffer_type_t where : {ggml_backend_cpu_buffer_type(), repacked()})
      for (const peers::product& p : cases) {
        if (where == nullptr) continue;
        mul_mat theirs(p, type, where);
        if (!theirs.runs()) continue;
        const std::string name =
            std::string("ggml ") + type_name + (where == ggml_backend_cpu_buffer_type() ? "" : ", repacked");
        peers::compare(p, peers::ours<Format, Format>(p, our_name),
                       {name, theirs.weights(), [&](std::size_t i) { theirs(i); }});
      }
    return;
  }
  std::fprintf(stderr, "this version of ggml has no type %s\n", type_name);
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<const peers::product> cases = peers::products(argc, argv);
  ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  ggml_backend_free(ggml_backend_cpu_init());  // fills ggml's tables
  compare_with<ufp4::mxfp4>(cases, "mxfp4", "mxfp4");
  compare_with<ufp4::nvfp4>(cases, "nvfp4", "nvfp4");
  compare_with<ufp4::mxfp4>(cases, "q4_0", "mxfp4");
  compare_with<ufp4::mxfp4>(cases, "q4_0_r8", "mxfp4");
  compare_with<ufp4::mxfp4>(cases, "mxfp4_r8", "mxfp4");
}
