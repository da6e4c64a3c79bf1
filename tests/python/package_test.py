# ufp4 - the package as a whole: its names, docstrings, type stubs and version.
# SPDX-License-Identifier: Apache-2.0
import importlib.metadata
import importlib.resources
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import ufp4

ROOT = pathlib.Path(__file__).parents[2]


def test_the_version_is_that_of_the_library():
    parts = re.findall(r"#define UFP4_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (ROOT / "include/ufp4/version.hpp").read_text())
    assert ufp4.__version__ == importlib.metadata.version("ufp4") == ".".join(parts)


def test_every_public_name_has_a_docstring():
    for name in ufp4.__all__:
        value = getattr(ufp4, name)
        assert name == "__version__" or inspect.getdoc(value), name
        if inspect.isclass(value) and not issubclass(value, tuple):
            for member, content in vars(value).items():
                described = isinstance(content, property) or callable(content)
                if described and not member.startswith("_"):
                    assert inspect.getdoc(content), f"{name}.{member}"


def test_every_function_of_matrices_names_shapes_and_errors():
    functions = [getattr(ufp4, name) for name in ("amax", "cast", "explain_matmul", "fake_quantize", "hadamard_forward", "hadamard_inverse",
                                                  "linear_backward_input", "linear_backward_weight", "linear_forward", "matmul",
                                                  "measure", "prepack", "quantize")]
    functions += [ufp4.Linear.forward, ufp4.Linear.dgrad, ufp4.Linear.wgrad, ufp4.QuantizedMatrix.dequantize]
    for function in functions:
        text = inspect.getdoc(function)
        assert re.search(r"\[\w+, ?\w+\]", text), f"{function.__name__}: no shape"
        assert "ValueError: " in text, f"{function.__name__}: no errors"


def test_the_type_stubs_have_every_public_name_of_the_module():
    files = importlib.resources.files(ufp4)
    assert (files / "py.typed").is_file()
    stub = (files / "_core.pyi").read_text()
    for name in dir(ufp4._core):
        if not name.startswith("_"):
            assert re.search(rf"^(def |class |){name}\b", stub, re.MULTILINE), name
    compile(stub, "_core.pyi", "exec")
    assert "nanobind" not in stub


TYPED = """
import numpy as np
import ufp4

x = np.zeros((4, 64), np.float32)
q: ufp4.QuantizedMatrix = ufp4.quantize(x, "nvfp4", rht=16, rounding=ufp4.Stochastic(7), progress=lambda done, rows: None)
y = ufp4.matmul(x, q, out=np.zeros((4, 4), np.float32), bias=np.zeros(4, np.float32))
m: ufp4.Measurement = ufp4.measure(x, ufp4.format("mxfp4"))
f: ufp4.Format = ufp4.Format([float(i) for i in range(16)], "bf16", (1, 8))
as_mxfp4, lost = ufp4.cast(q, "mxfp4")
decibel: float = lost.sqnr_db + as_mxfp4.tensor_scale + ufp4.format("hif4").grids[0][1]
rows: int = ufp4.Linear("nvfp4").forward(x, x).shape[0] + q.dequantize("bfloat16").shape[0]
text: str = ufp4.__version__ + q.format.name
"""


def test_the_types_of_the_package_are_consistent(tmp_path):
    api = pytest.importorskip("mypy.api")
    (tmp_path / "typed.py").write_text(TYPED)
    right = api.run(["--strict", f"--cache-dir={tmp_path}", str(tmp_path / "typed.py")])
    assert right[2] == 0, right[0]
    (tmp_path / "typed.py").write_text(TYPED + "ufp4.quantize([1.0], 4)")
    wrong = api.run(["--strict", f"--cache-dir={tmp_path}", str(tmp_path / "typed.py")])
    assert wrong[0].count("error:") == 2, wrong[0]


@pytest.mark.parametrize("module", ["ml_dtypes", "numpy"])
def test_the_requirements_are_declared(module):
    assert any(r.startswith(module) for r in importlib.metadata.requires("ufp4"))
def test_the_page_uses_names_that_exist():
    page = (ROOT / "docs/python.md").read_text()
    for name in set(re.findall(r"\bufp4\.([A-Za-z_]+)\(", page)):
        assert name in ufp4.__all__, name


def test_the_programs_of_the_page_run(tmp_path):
    page = (ROOT / "docs/python.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert programs
    for program in programs:
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, cwd=tmp_path)


