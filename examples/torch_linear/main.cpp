// ufp4 - torch_linear: torch::nn::Linear in 4 bits, its gradients checked, and a toy network trained with it.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "program.hpp"

int main(int argc, char** argv) { return torch_linear::run_program(argc, argv, std::cout, std::cerr); }
