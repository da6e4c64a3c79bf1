// ufp4 - the extension module ufp4._core: the library's operations on arrays of Python programs.
// SPDX-License-Identifier: Apache-2.0
#include "policies.hpp"

NB_MODULE(_core, m) {
  m.doc() = "The compiled part of ufp4; import ufp4 instead.";
  m.attr("version") = ufp4::version_string;
  ufp4::python::bind_formats(m);
  ufp4::python::bind_rules(m);
  ufp4::python::bind_quantized(m);
  ufp4::python::bind_quantize(m);
  ufp4::python::bind_transforms(m);
  ufp4::python::bind_products(m);
  ufp4::python::bind_cast(m);
  ufp4::python::bind_linear(m);
  ufp4::python::bind_files(m);
#if defined(UFP4_PYTHON_DEVICE)
  ufp4::python::bind_device(m);
#endif
}
