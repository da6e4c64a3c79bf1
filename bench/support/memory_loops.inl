// ufp4 - benches: the bodies of memory_loops.hpp for one width, included once a width, inside its target region.
// SPDX-License-Identifier: Apache-2.0
//
// The includer defines `width`, the bytes of a vector. Eight vectors a step hide the latency of a load.

constexpr std::size_t unroll = 8;
using line = std::uint64_t __attribute__((vector_size(width), may_alias));

UFP4_LANE void keep(line& v) {
#if defined(__x86_64__)
  asm volatile("" : "+x"(v));
#elif defined(__aarch64__)
  asm volatile("" : "+w"(v));
#else
  asm volatile("" : "+m"(v));
#endif
}

inline void read(const unsigned char* from, std::size_t bytes) {
  line sums[unroll] = {};
  for (std::size_t i = 0; i < bytes; i += unroll * width)
    for (std::size_t j = 0; j < unroll; ++j) sums[j] |= *reinterpret_cast<const line*>(from + i + j * width);
  for (line& sum : sums) keep(sum);
}

inline void write(unsigned char* to, std::size_t bytes) {
  line value = {};
  keep(value);
  for (std::size_t i = 0; i < bytes; i += unroll * width)
    for (std::size_t j = 0; j < unroll; ++j) *reinterpret_cast<line*>(to + i + j * width) = value;
  asm volatile("" ::: "memory");
}

inline void update(unsigned char* at, std::size_t bytes) {
  line flip = {};
  keep(flip);
  for (std::size_t i = 0; i < bytes; i += unroll * width)
    for (std::size_t j = 0; j < unroll; ++j) *reinterpret_cast<line*>(at + i + j * width) ^= flip;
  asm volatile("" ::: "memory");
}

inline void copy(const unsigned char* from, unsigned char* to, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += unroll * width) {
    line values[unroll];
    for (std::size_t j = 0; j < unroll; ++j) values[j] = *reinterpret_cast<const line*>(from + i + j * width);
    for (std::size_t j = 0; j < unroll; ++j) {
      keep(values[j]);  // so that the compiler does not call memcpy
      *reinterpret_cast<line*>(to + i + j * width) = values[j];
    }
  }
  asm volatile("" ::: "memory");
}
