// ufp4 - fuzz target: interop/gguf.hpp reads any bytes, ggml's blocks of 4 bits too.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include <ufp4/interop/gguf.hpp>

#include <ufp4/block/presets.hpp>

#include "tensor_file.hpp"

namespace {

using namespace ufp4;

template <class Format>
void read_quantized(interop::gguf_reader& file, std::size_t size) {
  for (const interop::stored_tensor& t : file.tensors())
    fuzz::may_reject([&] {
      const auto q = interop::read_quantized<Format>(file, t.name);
      fuzz::require(q.codes().size() <= size, "more codes than the file has");
    });
}

void check(std::size_t size) {
  interop::gguf_reader file(fuzz::scratch_file());
  fuzz::read_all(file, size);
  if (file.tensors().size() > 16) return;
  read_quantized<nvfp4>(file, size);
  read_quantized<mxfp4>(file, size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::write_input(data, size);
  fuzz::may_reject([&] { check(size); });
  return 0;
}
