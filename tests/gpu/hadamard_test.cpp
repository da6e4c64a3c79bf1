// ufp4 - hadamard_forward and hadamard_inverse on a GPU give the host's bits.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/seed.hpp"

#include <cstring>
#include <vector>

using namespace ufp4;

TEST_CASE("a transform on the device gives the host's bits at every length and tail", "[gpu]") {
  const std::size_t rows = 5;
  for (const transform_spec& t :
       {transform_spec{}, random_hadamard<16>{1}.spec(), random_hadamard<32>{2}.to_bf16().spec(), hadamard<64>{}.spec(),
        random_hadamard<128>{3}.spec(), random_hadamard<256>{4}.spec()})
    for (const std::size_t cols : {1u, 15u, 16u, 17u, 100u, 256u, 513u}) {
      CAPTURE(t.n, cols);
      const std::size_t padded = (cols + t.n - 1) / t.n * t.n;
      std::vector<float> x(rows * cols), want(rows * padded);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * 0.37f;
      hadamard_forward(matrix_view<const float>{x.data(), rows, cols}, matrix_view<float>{want.data(), rows, padded},
                       t);
      const gpu::buffer<float> in{std::span<const float>(x)}, out(rows * padded);
      REQUIRE(support::text_of(gpu::hadamard_forward(gpu::context{}, matrix_view<const float>{in.data(), rows, cols},
                                                     matrix_view<float>{out.data(), rows, padded}, t)) == "");
      REQUIRE(support::same_bits(support::on_host(out), want));
    }
}

TEST_CASE("a wrong argument returns a status with the host's message", "[gpu]") {
  float x[4] = {};
  const matrix_view<float> wrong{x, 2, 2};
  const gpu::status s = gpu::hadamard_forward(gpu::context{}, wrong, matrix_view<float>{x, 1, 2}, hadamard<16>{});
  REQUIRE_FALSE(s.ok());
  REQUIRE(s.code() == gpu::invalid_argument);
  REQUIRE(s.text() == "hadamard_forward: out has 1 rows, but x has 2");
  float y[32] = {};
  const gpu::status overlapping =
      gpu::hadamard_forward(gpu::context{}, wrong, matrix_view<float>{y, 2, 16, 0}, hadamard<16>{});
  REQUIRE(overlapping.text() ==
          "hadamard_forward: elements of out overlap: 2 x 16 with row stride 0 and column stride 1");
}
