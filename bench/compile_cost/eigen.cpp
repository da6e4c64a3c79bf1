// ufp4 - bench: what a product of two dynamic matrices of float costs to compile with Eigen, for comparison.
// SPDX-License-Identifier: Apache-2.0
#include <Eigen/Dense>

void multiply(const Eigen::MatrixXf& a, const Eigen::MatrixXf& b, Eigen::MatrixXf& c) { c = a * b; }

int main() {}
