# ufp4 - what the tests of the Python package share: matrices, the oracle, settings of hypothesis.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys

import hypothesis
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "oracle"))
import numerics  # noqa: E402

import ufp4  # noqa: E402

hypothesis.settings.register_profile("suite", database=None, deadline=None, max_examples=60, derandomize=True,
                                     suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile("suite")


# Those of the presets that fewer operations have: prepack, casts and GPUs have no elements of one byte; Format has the
# formats that grid, scale, block and tensor scale describe.
NAMES = [f.name for f in ufp4.formats()]
FOUR_BITS = [f.name for f in ufp4.formats() if f.code_bits == 4]
PLAIN = [f.name for f in ufp4.formats() if f.code_bits == 4 and f.scale != "e6m2" and len(f.grids) == 1
         and f.outer_scale in (None, ("f32", "tensor"))]


def normal(rows, cols, seed=0, dtype=np.float32):
    """A matrix with a few large values, as weights have."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, cols), np.float32)
    x[rng.random((rows, cols)) < 0.01] *= 20
    return x.astype(dtype)


def bits(x):
    """The bytes of an array, so that -0 differs from 0 and a NaN equals itself."""
    return np.ascontiguousarray(x).view(np.uint8)


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and bool((bits(a) == bits(b)).all())


@pytest.fixture
def oracle():
    return numerics


@pytest.fixture(scope="session")
def tool():
    """The program `ufp4` of this build."""
    path = os.environ.get("UFP4_TOOL")
    if not path:
        pytest.skip("UFP4_TOOL does not name the program ufp4")
    return path
