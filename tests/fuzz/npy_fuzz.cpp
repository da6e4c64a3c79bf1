// ufp4 - fuzz target: interop/npy.hpp reads any bytes; an array that it reads is written and read again.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include <ufp4/interop/npy.hpp>

#include "tensor_file.hpp"

namespace {

using namespace ufp4;

void check(std::size_t size) {
  interop::npy_reader file(fuzz::scratch_file());
  fuzz::read_all(file, size);
  const interop::stored_tensor& t = file.array();
  std::vector<unsigned char> bytes(static_cast<std::size_t>(t.bytes)), again(bytes.size());
  file.read_bytes(t, 0, bytes.data(), bytes.size());
  if (t.column_major || t.shape.size() > 32) return;  // NumPy's own limit
  interop::write_npy(fuzz::scratch_file(), interop::source_of(t.type, t.shape, bytes.data()));
  interop::npy_reader copy(fuzz::scratch_file());
  fuzz::require(copy.array().type == t.type && copy.array().shape == t.shape, "another array was written");
  copy.read_bytes(copy.array(), 0, again.data(), again.size());
  fuzz::require(again == bytes, "other bytes were written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::write_input(data, size);
  fuzz::may_reject([&] { check(size); });
  return 0;
}
