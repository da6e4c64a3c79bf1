// ufp4 - fuzz target: interop/gguf.hpp reads any bytes, also as ggml's 4-bit blocks.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include <ufp4/interop/gguf.hpp>

#include <ufp4/block/presets.hpp>

#include "tensor_file.hpp"

namespace {

using namespace ufp4;

void check(std::size_t size) {
  interop::gguf_reader file(fuzz::scratch_file());
  fuzz::read_all(file, size);
  if (file.tensors().size() > 16) return;
  for (const interop::stored_tensor& t : file.tensors()) {
    fuzz::read_weight<nvfp4>(file, t.name, size);
    fuzz::read_weight<mxfp4>(file, t.name, size);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::write_input(data, size);
  fuzz::may_reject([&] { check(size); });
  return 0;
}
