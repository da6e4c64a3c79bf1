# ufp4 - Conan 2 recipe: conan profile detect --exist-ok && conan create . -s compiler.cppstd=20
# With -o "ufp4/*:kernels=True" the package also has ufp4::kernels, the compiled CPU kernels.
# SPDX-License-Identifier: Apache-2.0
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

required_conan_version = ">=2.0"


class Ufp4Conan(ConanFile):
    name = "ufp4"
    description = "4-bit block-scaled numbers: formats, rounding, Hadamard transforms and GEMM, the same bits everywhere"
    license = "Apache-2.0"
    homepage = "https://arxiv.org/abs/2606.20381"
    topics = ("quantization", "fp4", "nvfp4", "mxfp4", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"kernels": [True, False]}
    default_options = {"kernels": False}
    exports_sources = "include/*", "cmake/*", "CMakeLists.txt", "LICENSE"
    no_copy_source = True
    # The package's own tests/ holds many; this one is a consumer's.
    test_package_folder = os.path.join("tests", "consume", "conan")

    def set_version(self):
        if self.version:
            return  # --version
        text = load(self, os.path.join(self.recipe_folder, "include", "ufp4", "version.hpp"))
        numbers = re.findall(r"^#define UFP4_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", text, re.MULTILINE)
        self.version = ".".join(numbers)

    def configure(self):
        if self.options.kernels:
            self.package_type = "static-library"

    def layout(self):
        cmake_layout(self)

    def package_id(self):
        if not self.info.options.kernels:
            self.info.clear()  # one package for every compiler

    def validate(self):
        if self.settings.get_safe("compiler") == "msvc":
            raise ConanInvalidConfiguration("ufp4 needs g++ or clang: its headers reject MSVC with an #error")
        check_min_cppstd(self, 20)

    def generate(self):
        if self.options.kernels:
            toolchain = CMakeToolchain(self)
            for tests in ("TESTS", "EXAMPLES", "BENCH"):
                toolchain.cache_variables[f"UFP4_BUILD_{tests}"] = False
            toolchain.cache_variables["UFP4_KERNELS"] = True
            toolchain.generate()

    def build(self):
        if self.options.kernels:
            cmake = CMake(self)
            cmake.configure()
            cmake.build(target="ufp4_kernels")

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        copy(self, "*", os.path.join(self.source_folder, "include"), os.path.join(self.package_folder, "include"))
        copy(self, "*.a", self.build_folder, os.path.join(self.package_folder, "lib"), keep_path=False)

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "ufp4")
        headers = self.cpp_info.components["headers"]
        headers.bindirs = []
        headers.libdirs = []
        headers.set_property("cmake_target_name", "ufp4::ufp4")
        headers.set_property("pkg_config_name", "ufp4")
        if self.settings.get_safe("os") in ("Linux", "FreeBSD"):
            headers.system_libs = ["pthread"]
        if self.options.kernels:
            kernels = self.cpp_info.components["kernels"]
            kernels.libs = ["ufp4_kernels"]
            kernels.defines = ["UFP4_EXTERNAL_KERNELS"]
            kernels.requires = ["headers"]
            kernels.set_property("cmake_target_name", "ufp4::kernels")
            kernels.set_property("pkg_config_name", "ufp4-kernels")
