// ufp4 - the target ufp4::c: the library of the C interface.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/c/functions.hpp>
