// ufp4 - compare: 4-bit formats on a real matrix, side by side.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "program.hpp"

int main(int argc, char** argv) { return compare::run_program(argc, argv, std::cout, std::cerr); }
