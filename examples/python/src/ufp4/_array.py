# ufp4 - the type of the arrays that the operations take.
# SPDX-License-Identifier: Apache-2.0
"""Arrays of any project."""
from typing import Any, Protocol


class Array(Protocol):
    """An array of numpy (with ml_dtypes), PyTorch, JAX or any other project: an object with DLPack's methods.

    It is used in place, without a copy, and must be in the memory of the CPU.
    """

    def __dlpack__(self) -> Any:
        """The array as a capsule."""

    def __dlpack_device__(self) -> tuple[Any, Any]:
        """The kind and the number of the device that has the memory."""
