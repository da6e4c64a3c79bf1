// ufp4 - the target ufp4::kernels: the CPU kernels of every program that is compiled with UFP4_EXTERNAL_KERNELS.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cpu/kernels.hpp>
