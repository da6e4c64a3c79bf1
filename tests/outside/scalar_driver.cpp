// ufp4 - converts a stream of numbers, for the comparisons with other projects' packages.
// SPDX-License-Identifier: Apache-2.0
//
// usage: scalar_driver OPERATION < numbers > numbers      (both uint32, in the machine's byte order)
//
// | operation                       | in         | out                                            |
// |---------------------------------|------------|------------------------------------------------|
// | TYPE                            | float bits | the code of TYPE{float}                        |
// | TYPE/value                      | codes      | the bits of the code's value                   |
// | TYPE/ieee                       | float bits | bf16 and fp16: the code of round_to<TYPE>      |
// | TYPE/POLICY                     | float bits | elements: the code by a rounding policy        |
// | TYPE/stochastic SEED STREAM     | float bits | the same; number i of the input has index i    |
//
// TYPE: e2m1 e1m2 e3m0 int4 nf4 e4m3 ue5m3 e8m0 bf16 fp16 fp8_e4m3 fp8_e5m2 fp6_e3m2 fp6_e2m3; grid:V0:...:V15, the
// grid of sixteen values, of which only the policies are asked. POLICY: nearest_even nearest_away toward_zero.
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/fp8.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/scales.hpp>
#include <ufp4/format/table_element.hpp>
#include <ufp4/round/round_to_byte.hpp>
#include <ufp4/round/round_to_grid.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace {

struct request {
  std::string type, what;  // "e2m1", "nearest_even"
  ufp4::stochastic random_bits;
};

ufp4::rounding_spec policy(const request& r) {
  if (r.what == "nearest_even") return ufp4::nearest_even{};
  if (r.what == "nearest_away") return ufp4::nearest_away{};
  if (r.what == "toward_zero") return ufp4::toward_zero{};
  if (r.what == "stochastic") return r.random_bits;
  throw std::invalid_argument("'" + r.what + "' is no operation on " + r.type);
}

/// "grid:0:0.5:..."
ufp4::grid4 grid_from(const std::string& type) {
  float values[16];
  const char* at = type.c_str() + 4;
  for (float& v : values) {
    if (*at != ':') throw std::invalid_argument("'" + type + "' is no grid of sixteen values");
    char* end = nullptr;
    v = std::strtof(at + 1, &end);
    at = end;
  }
  return ufp4::grid4::of(values);
}

template <class T>
void answer(const request& r, std::vector<std::uint32_t>& numbers) {
  using code = decltype(T().bits());
  const auto each = [&](auto convert) {
    for (std::uint32_t& x : numbers) x = convert(x);
  };
  const auto as_float = [](std::uint32_t x) { return ufp4::detail::to_float(x); };
  if (r.what.empty()) return each([&](std::uint32_t x) { return T{as_float(x)}.bits(); });
  if (r.what == "value") {
    return each(
        [](std::uint32_t x) { return ufp4::detail::to_bits(static_cast<float>(T::from_bits(static_cast<code>(x)))); });
  }
  if constexpr (std::is_same_v<T, ufp4::bf16> || std::is_same_v<T, ufp4::fp16>) {
    if (r.what == "ieee") return each([&](std::uint32_t x) { return ufp4::detail::round_to<T>(as_float(x)).bits(); });
  }
  if constexpr (ufp4::element_format<T>) {
    const ufp4::rounding_spec rounding = policy(r);
    constexpr ufp4::grid4 grid = ufp4::grid_of<T>();
    std::uint64_t index = 0;
    return each([&](std::uint32_t x) { return ufp4::detail::round_to_grid(grid, rounding, as_float(x), index++); });
  }
  if constexpr (ufp4::detail::byte_element_format<T>) {
    const ufp4::rounding_spec rounding = policy(r);
    std::uint64_t index = 0;
    return each(
        [&](std::uint32_t x) { return ufp4::detail::round_to_minifloat(T::layout(), rounding, as_float(x), index++); });
  }
  throw std::invalid_argument("'" + r.what + "' is no operation on " + r.type);
}

void answer(const request& r, std::vector<std::uint32_t>& numbers) {
  if (r.type.starts_with("grid:")) {
    const ufp4::grid4 grid = grid_from(r.type);
    const ufp4::rounding_spec rounding = policy(r);
    for (std::uint32_t& x : numbers) x = ufp4::detail::round_to_grid(grid, rounding, ufp4::detail::to_float(x), 0);
    return;
  }
  if (r.type == "e2m1") return answer<ufp4::fp4<ufp4::E2M1>>(r, numbers);
  if (r.type == "e1m2") return answer<ufp4::fp4<ufp4::E1M2>>(r, numbers);
  if (r.type == "e3m0") return answer<ufp4::fp4<ufp4::E3M0>>(r, numbers);
  if (r.type == "int4") return answer<ufp4::int4>(r, numbers);
  if (r.type == "nf4") return answer<ufp4::nf4>(r, numbers);
  if (r.type == "e4m3") return answer<ufp4::e4m3>(r, numbers);
  if (r.type == "fp8_e4m3") return answer<ufp4::fp8_e4m3>(r, numbers);
  if (r.type == "fp8_e5m2") return answer<ufp4::fp8_e5m2>(r, numbers);
  if (r.type == "fp6_e3m2") return answer<ufp4::fp6_e3m2>(r, numbers);
  if (r.type == "fp6_e2m3") return answer<ufp4::fp6_e2m3>(r, numbers);
  if (r.type == "ue5m3") return answer<ufp4::ue5m3>(r, numbers);
  if (r.type == "e8m0") return answer<ufp4::e8m0>(r, numbers);
  if (r.type == "bf16") return answer<ufp4::bf16>(r, numbers);
  if (r.type == "fp16") return answer<ufp4::fp16>(r, numbers);
  throw std::invalid_argument("'" + r.type + "' is no type");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    std::fputs("usage: scalar_driver TYPE[/OPERATION] [SEED STREAM] < numbers > numbers\n", stderr);
    return 2;
  }
  const std::string operation = argv[1];
  const std::size_t slash = operation.find('/');
  request r{operation.substr(0, slash), slash == std::string::npos ? "" : operation.substr(slash + 1), {}};
  if (argc == 4) r.random_bits = {std::strtoull(argv[2], nullptr, 0), std::strtoull(argv[3], nullptr, 0)};

  std::vector<std::uint32_t> numbers(1 << 16);
  std::size_t filled = 0;
  while (const std::size_t got = std::fread(numbers.data() + filled, 4, numbers.size() - filled, stdin)) {
    filled += got;
    if (filled == numbers.size()) numbers.resize(2 * filled);
  }
  numbers.resize(filled);
  try {
    answer(r, numbers);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "scalar_driver: %s\n", error.what());
    return 2;
  }
  return std::fwrite(numbers.data(), 4, filled, stdout) == filled && std::fflush(stdout) == 0 ? 0 : 1;
}
