# ufp4 - Conan 2 recipe: conan profile detect --exist-ok && conan create . -s compiler.cppstd=20
# SPDX-License-Identifier: Apache-2.0
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, load
from conan.tools.layout import basic_layout

required_conan_version = ">=2.0"


class Ufp4Conan(ConanFile):
    name = "ufp4"
    description = "4-bit block-scaled numbers: formats, rounding, Hadamard transforms and GEMM, the same bits everywhere"
    license = "Apache-2.0"
    topics = ("quantization", "fp4", "nvfp4", "mxfp4", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    exports_sources = "include/*", "LICENSE"
    no_copy_source = True
    # The package's own tests/ holds many; this one is a consumer's.
    test_package_folder = os.path.join("tests", "consume", "conan")

    def set_version(self):
        if self.version:
            return  # --version
        text = load(self, os.path.join(self.recipe_folder, "include", "ufp4", "version.hpp"))
        numbers = re.findall(r"^#define UFP4_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", text, re.MULTILINE)
        self.version = ".".join(numbers)

    def layout(self):
        basic_layout(self)

    def package_id(self):
        self.info.clear()  # one package for every compiler

    def validate(self):
        if self.settings.get_safe("compiler") == "msvc":
            raise ConanInvalidConfiguration("ufp4 needs g++ or clang: its headers reject MSVC with an #error")
        check_min_cppstd(self, 20)

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        copy(self, "*", os.path.join(self.source_folder, "include"), os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "ufp4")
        self.cpp_info.set_property("cmake_target_name", "ufp4::ufp4")
        self.cpp_info.set_property("pkg_config_name", "ufp4")
        if self.settings.get_safe("os") in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]  # std::thread
