// ufp4 - the code of docs/interop.md, compiled. It leaves its files in a folder of its own and removes them.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/npy.hpp>
#include <ufp4/interop/safetensors.hpp>
#include <ufp4/ufp4.hpp>

#undef NDEBUG
#include <cassert>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

using namespace ufp4;

namespace {

/// The working folder for as long as this lives.
class scratch {
 public:
  scratch()
      : path_(std::filesystem::temp_directory_path() / ("ufp4-interop-" + std::to_string(std::random_device{}()))) {
    std::filesystem::create_directory(path_);
    std::filesystem::current_path(path_);
  }
  ~scratch() {
    std::filesystem::current_path("/");
    std::filesystem::remove_all(path_);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

int main() {
  const scratch folder;
  std::vector<float> xs(128 * 192), some(2 * 192);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7919 % 1009) - 504.0f;
  const matrix_view<const float> x{xs.data(), 128, 192};
  const matrix_view<float> rows{some.data(), 2, 192};
  const auto q = quantize<nvfp4>(x);
  const auto qt = quantize<e1m2_f32>(x, random_hadamard<16>{42});
  interop::safetensors_writer first;
  first.add("up.weight", interop::source_of(x));
  first.write("model.safetensors");

  interop::safetensors_reader model("model.safetensors");
  const interop::stored_tensor& t = model.at("up.weight");
  model.read_rows(t, /*first=*/64, rows);  // a matrix_view of float, bf16 or fp16

  interop::safetensors_writer out;
  interop::add_quantized(out, "up.weight", q);  // as compressed-tensors has it
  interop::add_quantized(out, "down.weight", qt, interop::tensor_layout::ufp4);
  out.write("quantized.safetensors");

  interop::safetensors_reader quantized("quantized.safetensors");
  auto again = interop::read_quantized<nvfp4>(quantized, "up.weight");  // in any layout
  assert(again == q && rows(0, 3) == x(64, 3));
  assert((interop::read_quantized<e1m2_f32>(quantized, "down.weight") == qt));

  out.add("made.weight", {interop::number_type::f32, {1000, 3}, [](const interop::byte_sink& sink) {
                            for (float i = 0; i < 1000; ++i) {
                              const float row[3] = {i, 2 * i, 3 * i};
                              sink(row, sizeof row);
                            }
                          }});
  out.write("more.safetensors");
  interop::safetensors_reader more("more.safetensors");
  float made[3] = {};
  more.read_rows(more.at("made.weight"), 999, matrix_view<float>(made, 1, 3));
  assert(made[2] == 2997);

  const std::vector<std::uint8_t> codes(3 * 8 * 2 * 16, 0x22), powers(3 * 8 * 2, 128);  // of value 1, scale 2
  interop::safetensors_writer stack;
  stack.add("mlp.experts.up_blocks", interop::source_of(interop::number_type::u8, {3, 8, 2, 16}, codes.data()));
  stack.add("mlp.experts.up_scales", interop::source_of(interop::number_type::u8, {3, 8, 2}, powers.data()));
  stack.write("experts.safetensors");

  interop::safetensors_reader experts("experts.safetensors");
  const interop::stored_weight w = interop::find_weight(experts, "mlp.experts.up");  // w.shape, w.axis, w.parts()
  any_quantized third = interop::read_part(experts, w, 2);
  assert(w.shape == (std::vector<std::uint64_t>{3, 64, 8}) && third.rows() == 8 && third.cols() == 64);

  interop::gguf_writer blocks;
  blocks.set_string("general.architecture", "llama");
  interop::add_quantized(blocks, "blk.0.ffn_up.weight", q);
  blocks.write("blocks.gguf");

  interop::gguf_reader file("blocks.gguf");
  auto same = interop::read_quantized<nvfp4>(file, "blk.0.ffn_up.weight");
  assert(same == q);

  interop::write_npy("weights.npy", interop::source_of(x));  // float, bf16 or fp16, with any strides
  interop::write_npy("codes.npy", interop::codes_of(q));     // bytes
  interop::npy_reader weights("weights.npy");
  weights.read_rows(weights.array(), 1, rows);
  assert(rows(0, 0) == x(1, 0));
}
