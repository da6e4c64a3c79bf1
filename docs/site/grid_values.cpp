// ufp4 - prints the grids that pictures.py draws, one in a line: the name and the values of rounding.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <ufp4/format/fp4.hpp>
#include <ufp4/format/grid.hpp>
#include <ufp4/format/int4.hpp>
#include <ufp4/format/table_element.hpp>

template <ufp4::element_format E>
void print(const char* name) {
  constexpr ufp4::grid4 grid = ufp4::grid_of<E>();
  std::fputs(name, stdout);
  for (int i = 0; i < grid.levels; ++i) std::printf(" %.9g", static_cast<double>(grid.level[i]));
  std::puts("");
}

int main() {
  print<ufp4::fp4<ufp4::E2M1>>("fp4<E2M1>");
  print<ufp4::fp4<ufp4::E1M2>>("fp4<E1M2>");
  print<ufp4::fp4<ufp4::E3M0>>("fp4<E3M0>");
  print<ufp4::int4>("int4");
  print<ufp4::nf4>("nf4");
}
