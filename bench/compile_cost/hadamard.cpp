// ufp4 - bench: what the transforms cost to compile.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/hadamard.hpp>

void transform(const ufp4::matrix_view<float>& x) { ufp4::hadamard_forward(x, x, ufp4::random_hadamard<16>{1}); }

int main() {}
