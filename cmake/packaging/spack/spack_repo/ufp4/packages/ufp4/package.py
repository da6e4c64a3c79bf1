# ufp4 - the Spack package of the clone that it lies in.
# SPDX-License-Identifier: Apache-2.0
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Ufp4(CMakePackage):
    """4-bit block-scaled numbers: formats, rounding, Hadamard transforms and GEMM, the same bits everywhere."""

    homepage = "https://arxiv.org/abs/2606.20381"
    git = os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 7))

    license("Apache-2.0", checked_by="ufp4")

    version("main", branch="main")

    variant("kernels", default=False, description="The compiled CPU kernels, ufp4::kernels")
    variant("c", default=False, description="The C interface, ufp4::c")
    variant("shared", default=True, description="Shared instead of static libraries", when="+kernels")
    variant("shared", default=True, description="Shared instead of static libraries", when="+c")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.23:", type="build")

    conflicts("%gcc@:10", msg="ufp4 needs g++ 11 or newer")
    conflicts("%clang@:15", msg="ufp4 needs clang 16 or newer")

    def cmake_args(self):
        return [
            self.define("UFP4_BUILD_TESTS", False),
            self.define("UFP4_BUILD_EXAMPLES", False),
            self.define("UFP4_BUILD_BENCH", False),
            self.define_from_variant("UFP4_KERNELS", "kernels"),
            self.define_from_variant("UFP4_C", "c"),
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
        ]
