// ufp4 - bench: what the include of the GPU's operations costs to compile if none is called.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cuda.hpp>

int main() {}
