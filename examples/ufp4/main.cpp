// ufp4 - the command-line tool.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "program.hpp"

int main(int argc, char** argv) { return tool::run_program(argc, argv, std::cout, std::cerr); }
