// ufp4 - bench: what numbers without matrices cost to compile.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/format/fp4.hpp>

float nearest(float x) { return static_cast<float>(ufp4::fp4<ufp4::E1M2>(x)); }

int main() {}
