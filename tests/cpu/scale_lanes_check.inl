// ufp4 - what scale_lanes_test.cpp runs on the lanes of one instruction set; included inside its region and namespace.
// SPDX-License-Identifier: Apache-2.0

/// The first code from `first` on, below `end`, that the lanes decode to other bits than decode_scale; `end` if none.
/// The sign of a NaN is free.
inline std::uint32_t wrong_decode(scale_kind kind, std::uint32_t first, std::uint32_t end) {
  const auto canonical = [](std::uint32_t bits) { return (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : bits; };
  for (std::uint32_t c = first; c < end; c += lanes) {
    alignas(64) std::uint32_t code[lanes], packed[lanes] = {}, value[2][lanes];
    for (std::uint32_t l = 0; l < lanes; ++l) {
      code[l] = c + l;
      cpu::detail::store_scale(packed, kind, l, c + l);
    }
    store(value[0], decode_scale_bits(kind, load_as<u32>(code)));
    store(value[1], load_scales(kind, packed, 0));
    for (std::uint32_t l = 0; l < lanes; ++l)
      for (const auto& v : value)
        if (canonical(v[l]) != canonical(ufp4::detail::to_bits(ufp4::detail::decode_scale(kind, c + l)))) return c + l;
  }
  return end;
}

/// The first of the numbers with these bits that the lanes encode to another code than encode_scale; `end` if none.
inline std::uint32_t wrong_encode(scale_kind kind, std::uint32_t first, std::uint32_t end) {
  for (std::uint32_t bits = first; bits < end; bits += lanes) {
    alignas(64) std::uint32_t number[lanes], code[lanes];
    for (std::uint32_t l = 0; l < lanes; ++l) number[l] = bits + l;
    store(code, encode_scale_bits(kind, as_float(load_as<u32>(number))));
    for (std::uint32_t l = 0; l < lanes; ++l)
      if (code[l] != ufp4::detail::encode_scale(kind, ufp4::detail::to_float(bits + l))) return bits + l;
  }
  return end;
}
