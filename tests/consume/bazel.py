# ufp4 - evaluates cmake/packaging/bazel without Bazel, and builds a program in a folder that has only the declared files.
# SPDX-License-Identifier: Apache-2.0
#
#   bazel.py SOURCE WORK PROGRAM VERSION       needs starlark-pyo3 (PyPI), the language of Bazel's files, and g++; leaves WORK/headers, WORK/kernels
import pathlib
import shutil
import subprocess
import sys

import starlark

source, work, program = map(pathlib.Path, sys.argv[1:4])
version = sys.argv[4]
overlay = source / "cmake" / "packaging" / "bazel"
KNOWN = {"cc_library": {"name", "srcs", "hdrs", "includes", "linkopts", "copts", "defines", "local_defines", "deps"},
         "module": {"name", "version", "compatibility_level"}, "bazel_dep": {"name", "version"}}


def evaluate(name):
    """The calls of a file: (function, its arguments)."""
    calls = []

    def function(called):
        def record(*, name, **arguments):
            unknown = set(arguments) - KNOWN[called]
            if unknown:
                sys.exit(f"{name}: {called} has no {unknown}")
            calls.append((called, {"name": name, **arguments}))
        return record

    def glob(patterns):
        return sorted(str(f.relative_to(source)) for p in patterns for f in source.glob(p.removesuffix("**") + "**/*") if f.is_file())

    def load(path):
        if path != "@rules_cc//cc:defs.bzl":
            raise FileNotFoundError(path)
        rules = starlark.Module()
        rules.add_callable("cc_library", function("cc_library"))
        return rules.freeze()

    here = starlark.Module()
    for called in ("module", "bazel_dep"):
        here.add_callable(called, function(called))
    for called in ("package", "licenses", "exports_files"):
        here.add_callable(called, lambda *_, **__: None)
    here.add_callable("glob", glob)
    text = (overlay / name).read_text()
    starlark.eval(here, starlark.parse(name, text), starlark.Globals.standard(), starlark.FileLoader(load))
    return calls


module = dict(evaluate("MODULE.bazel"))["module"]
if module["version"] != version:
    sys.exit(f"MODULE.bazel has the version {module['version']}, and version.hpp {version}")

libraries = {arguments["name"]: arguments for _, arguments in evaluate("BUILD.bazel")}
shutil.rmtree(work, ignore_errors=True)
for library in libraries.values():
    for file in library.get("hdrs", []) + library.get("srcs", []):
        (work / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, work / file)


def closure(name):
    return [libraries[name]] + [l for d in libraries[name].get("deps", []) for l in closure(d.removeprefix(":"))]


def compile_(out, sources, names, *flags):
    used = [l for name in names for l in closure(name)]
    flags = [*flags, *(f"-I{i}" for l in used for i in l.get("includes", []))]
    subprocess.run(["g++", "-std=c++20", *flags, *sources, "-o", out, *(o for l in used for o in l.get("linkopts", []))], cwd=work,
                   check=True)


defines = [f"-D{d}" for d in libraries["kernels"]["defines"]]
compile_("headers", [program], ["ufp4"])
for file in libraries["kernels"]["srcs"]:  # without its -O3, which takes minutes
    compile_("kernels.o", [file], ["kernels"], "-c", *defines, *(f"-D{d}" for d in libraries["kernels"]["local_defines"]))
compile_("kernels", [program, "kernels.o"], ["kernels"], *defines)
