# ufp4 - writes the recipe of a release in the layout of ConanCenter, from conanfile.py and its test.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 cmake/packaging/conan_center.py ARCHIVE URL FOLDER
#
# ARCHIVE is the source archive of a release, URL where it can be downloaded. Writes FOLDER/recipes/ufp4: config.yml, and in all/
# conanfile.py, conandata.yml with URL and SHA-256, and test_package.
import hashlib
import pathlib
import re
import sys

source = pathlib.Path(__file__).resolve().parents[2]


def replaced(text, *changes):
    """The text with every change made; a change whose old text is absent, or is there twice, is an error."""
    for old, new in changes:
        if text.count(old) != 1:
            sys.exit(f"conan_center.py: conanfile.py must have once: {old!r}")
        text = text.replace(old, new)
    return text


def without_method(text, name):
    """The text of a class without that method."""
    found = re.search(rf"    def {name}\(self\):\n(?:(?:        .*)?\n)+?(?=    def )", text)
    if found is None:
        sys.exit(f"conan_center.py: conanfile.py has no method {name}")
    return text.replace(found.group(), "")


def recipe():
    text = without_method((source / "conanfile.py").read_text(), "set_version")
    text = text[text.index("import os"):]
    return replaced(
        text,
        ("import re\n", ""),
        ("from conan.tools.files import copy, load\n", "from conan.tools.files import copy, get\n"),
        ('    homepage = ', '    url = "https://github.com/conan-io/conan-center-index"\n    homepage = '),
        ('    exports_sources = "include/*", "cmake/*", "CMakeLists.txt", "LICENSE"\n', ""),
        ("    # The package's own tests/ holds many; this one is a consumer's.\n", ""),
        ('    test_package_folder = os.path.join("tests", "consume", "conan")\n', ""),
        ("        cmake_layout(self)\n", '        cmake_layout(self, src_folder="src")\n'),
        ("    def generate(self):\n", "    def source(self):\n"
         '        get(self, **self.conan_data["sources"][self.version], strip_root=True)\n\n    def generate(self):\n'))


def test_package():
    consumer = source / "tests" / "consume"
    return {"conanfile.py": replaced((consumer / "conan" / "conanfile.py").read_text(), ('"stranger"', '"test_package"')),
            "CMakeLists.txt": (consumer / "conan" / "CMakeLists.txt").read_text()
            .replace("../main.cpp", "test_package.cpp").replace("stranger", "test_package"),
            "test_package.cpp": (consumer / "main.cpp").read_text()}


def main(archive, url, folder):
    header = (source / "include" / "ufp4" / "version.hpp").read_text()
    version = ".".join(re.findall(r"^#define UFP4_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE))
    digest = hashlib.sha256(pathlib.Path(archive).read_bytes()).hexdigest()
    files = {"config.yml": f'versions:\n  "{version}":\n    folder: all\n',
             "all/conandata.yml": f'sources:\n  "{version}":\n    url: "{url}"\n    sha256: "{digest}"\n',
             "all/conanfile.py": recipe(),
             **{f"all/test_package/{name}": text for name, text in test_package().items()}}
    for name, text in files.items():
        path = pathlib.Path(folder, "recipes", "ufp4", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if len(sys.argv) != 4:
    sys.exit("usage: conan_center.py ARCHIVE URL FOLDER")
main(*sys.argv[1:])
