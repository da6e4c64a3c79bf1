// ufp4 - fuzz target: interop/safetensors.hpp reads any bytes, also as quantized weights, of AWQ and GPTQ too.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include <ufp4/interop/int4_groups.hpp>
#include <ufp4/interop/safetensors.hpp>

#include <ufp4/block/presets.hpp>

#include "tensor_file.hpp"

namespace {

using namespace ufp4;

/// A weight of AWQ or GPTQ: two codes a byte, so twice the file's bytes bound its memory.
void read_integers(interop::safetensors_reader& file, const std::string& name, std::size_t size) {
  fuzz::may_reject([&] {
    for (const interop::int4_layout gptq : {interop::int4_layout::gptq, interop::int4_layout::gptq_v2}) {
      const auto w = interop::read_int4_groups(file, name, interop::int4_layout_of(file, name, gptq));
      fuzz::require(w.codes.size() <= 2 * size && w.scales.size() <= size, "more numbers than the file has");
      std::vector<float> values(w.codes.size());
      interop::dequantize(w, matrix_view<float>(values.data(), w.rows, w.cols));
    }
  });
}

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
      fuzz::read_slices(file, name, size);
      read_integers(file, name, size);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::write_input(data, size);
  fuzz::may_reject([&] { check(size); });
  return 0;
}
