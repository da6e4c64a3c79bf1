# ufp4 - evaluates cmake/packaging/spack without Spack: prints the arguments that its package gives to CMake.
# SPDX-License-Identifier: Apache-2.0
#
#   spack.py SOURCE [VARIANT]...      one argument a line; the named variants are on. Fails where CMakeLists.txt has no such option
import importlib.util
import pathlib
import re
import sys
import types

source, wanted = pathlib.Path(sys.argv[1]).resolve(), set(sys.argv[2:])
repository = source / "cmake/packaging/spack/spack_repo/ufp4"
variants = {}


class CMakePackage:
    """What the package uses of Spack's class."""

    def define(self, name, value):
        return f"-D{name}={'ON' if value else 'OFF'}"

    def define_from_variant(self, name, variant):
        if variant not in variants:
            raise KeyError(f"there is no variant {variant}")
        return self.define(name, variant in wanted)


def variant(name, *, default, description, when=None):
    variants[name] = default


def module(name, **content):
    made = sys.modules[name] = types.ModuleType(name)
    made.__dict__.update(content)


def ignored(*_, **__):
    pass


for name in ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
    module(name)
module("spack_repo.builtin.build_systems.cmake", CMakePackage=CMakePackage)
module("spack.package", variant=variant, version=ignored, depends_on=ignored, conflicts=ignored, license=ignored)

sys.dont_write_bytecode = True
found = importlib.util.spec_from_file_location("package", repository / "packages/ufp4/package.py")
package = importlib.util.module_from_spec(found)
found.loader.exec_module(package)

if pathlib.Path(package.Ufp4.git) != source:
    sys.exit(f"package.py: git is {package.Ufp4.git}, not the clone that it lies in")
if "namespace: ufp4" not in (repository / "repo.yaml").read_text():
    sys.exit("repo.yaml does not name the folder's namespace")
if unknown := wanted - set(variants):
    sys.exit(f"package.py has no variant {unknown}")
options = set(re.findall(r"^option\((\w+)", (source / "CMakeLists.txt").read_text(), re.M)) | {"BUILD_SHARED_LIBS"}
for argument in package.Ufp4().cmake_args():
    name = argument[2:].split("=")[0]
    if name not in options:
        sys.exit(f"package.py sets {name}, which is no option of CMakeLists.txt")
    print(argument)
