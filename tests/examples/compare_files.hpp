// ufp4 - small files for the tests of examples.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/files.hpp"
