// ufp4 - C++20, or one error message: headers include this before anything that an older C++ cannot read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __cplusplus < 202002L && !defined(_MSC_VER)  // MSVC: compiler.hpp
#error "ufp4: this library needs C++20 (-std=c++20); for C and older C++ there is its C interface, <ufp4/ufp4.h>"
#include <needs C++20>  // There is no such file: compilers stop here, where an #error lets them go on.
#endif
