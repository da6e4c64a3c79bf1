// ufp4 - the definitions of every function of ufp4.h, for one C++ file of a program.
// SPDX-License-Identifier: Apache-2.0
//
//   #include <ufp4/c/functions.hpp>
#pragma once

#include <ufp4/c/gemm.hpp>
#include <ufp4/c/linear.hpp>
#include <ufp4/c/quantize.hpp>
