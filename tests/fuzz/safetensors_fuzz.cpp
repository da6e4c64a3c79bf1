// ufp4 - fuzz target: interop/safetensors.hpp reads any bytes, also as quantized weights.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include <ufp4/interop/safetensors.hpp>

#include <ufp4/block/presets.hpp>

#include "tensor_file.hpp"

namespace {

using namespace ufp4;

void check(std::size_t size) {
  interop::safetensors_reader file(fuzz::scratch_file());
  fuzz::read_all(file, size);
  if (file.tensors().size() > 16) return;
  for (const interop::stored_tensor& t : file.tensors())
    for (const std::size_t ending : {std::string::npos, t.name.rfind('.'), t.name.rfind('_')}) {
      const std::string name = t.name.substr(0, ending);  // what the weight's name could be
      fuzz::read_weight<nvfp4>(file, name, size);
      fuzz::read_weight<mxfp4>(file, name, size);
      fuzz::read_weight<e1m2_f32>(file, name, size);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::write_input(data, size);
  fuzz::may_reject([&] { check(size); });
  return 0;
}
