# ufp4 - quantized matrices in .safetensors files.
# SPDX-License-Identifier: Apache-2.0
"""`ufp4.save` and `ufp4.load`."""
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _core
from ._core import QuantizedMatrix


def save(path: str | os.PathLike[str], tensors: Mapping[str, Any], *, layout: str = "ufp4",
         metadata: Mapping[str, str] | None = None) -> None:
    """Writes a .safetensors file with one entry for each name: a QuantizedMatrix, or any array of numpy.

    layout: the names and types of the tensors of a quantized matrix: 'ufp4', which represents every matrix;
    'compressed_tensors', 'modelopt' or 'f4', which represent nvfp4 and mxfp4 without a transform or padding; 'gpt_oss',
    which represents mxfp4 so. An existing file is replaced when the new one is complete. ValueError: a matrix that the
    layout cannot represent.
    """
    rows = {name: x if isinstance(x, QuantizedMatrix) else np.ascontiguousarray(x) for name, x in tensors.items()}
    _core.save_file(os.fspath(path), rows, layout, dict(metadata or {}))


def load(path: str | os.PathLike[str], name: str | None = None) -> QuantizedMatrix | dict[str, QuantizedMatrix]:
    """Reads the quantized matrix of that name, in any layout; without a name, a dict of all that the file names as the
    layouts 'ufp4' and 'compressed_tensors' do. The format comes from the file.

    OSError: a file that cannot be opened. ValueError: a file without such a matrix, or a damaged one.
    """
    with open(path, "rb"):
        file = os.fspath(path)
    if name is not None:
        return _core.load_matrix(file, name)
    return {each: _core.load_matrix(file, each) for each in _core.matrix_names(file)}
