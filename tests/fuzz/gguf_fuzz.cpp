// ufp4 - fuzz target: interop/gguf.hpp reads any bytes, also as ggml's 4-bit blocks.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/gguf_values.hpp>

#include <ufp4/block/presets.hpp>

#include "tensor_file.hpp"

namespace {

using namespace ufp4;

/// The first row of a tensor of ggml's other 4-bit types.
void read_values(interop::gguf_reader& file, const interop::stored_tensor& t) {
  if (t.shape.empty() || t.shape.back() > fuzz::most_elements) return;
  std::vector<float> row(static_cast<std::size_t>(t.shape.back()));
  fuzz::may_reject([&] { interop::read_ggml_values(file, t, 0, matrix_view<float>(row.data(), 1, row.size())); });
}

void check(std::size_t size) {
  interop::gguf_reader file(fuzz::scratch_file());
  fuzz::read_all(file, size);
  if (file.tensors().size() > 16) return;
  for (const interop::stored_tensor& t : file.tensors()) {
    fuzz::read_weight<nvfp4>(file, t.name, size);
    fuzz::read_weight<mxfp4>(file, t.name, size);
    fuzz::read_slices(file, t.name, size);
    read_values(file, t);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::write_input(data, size);
  fuzz::may_reject([&] { check(size); });
  return 0;
}
