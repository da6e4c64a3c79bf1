// ufp4 - bench: what a linear layer's forward and backward under a recipe cost to compile.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/ufp4.hpp>

void train(const ufp4::recipe::bound_recipe& now, const ufp4::matrix_view<const float>& x,
           const ufp4::matrix_view<const float>& w, const ufp4::matrix_view<const float>& dy,
           const ufp4::matrix_view<float>& y, const ufp4::matrix_view<float>& dx, const ufp4::matrix_view<float>& dw) {
  ufp4::recipe::linear_forward(now, x, w, y);
  ufp4::recipe::linear_backward_input(now, dy, w, dx);
  ufp4::recipe::linear_backward_weight(now, dy, x, dw);
}

int main() {}
