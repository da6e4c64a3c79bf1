// ufp4 - train_lm: trains a small transformer in 4 bits under a recipe.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "program.hpp"

int main(int argc, char** argv) { return train_lm::run_program(argc, argv, std::cout, std::cerr); }
