# ufp4 - writes the port of a release as vcpkg's registry holds it, from the overlay port.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 cmake/packaging/vcpkg_registry.py ARCHIVE URL FOLDER
#
# ARCHIVE is the source archive of a release, URL where it can be downloaded, FOLDER a registry, as a clone of microsoft/vcpkg, or a
# new folder. Writes ports/ufp4, versions/u-/ufp4.json, and the entry of ufp4 in versions/baseline.json; older versions stay there.
# An archive of GitHub's (https://github.com/OWNER/REPOSITORY/archive/refs/tags/TAG.tar.gz) is fetched with vcpkg_from_github.
import hashlib
import json
import pathlib
import re
import sys

overlay = pathlib.Path(__file__).resolve().parent / "vcpkg" / "ufp4"


def git_object(kind, content):
    """The name that git gives an object."""
    return hashlib.sha1(f"{kind} {len(content)}".encode() + b"\0" + content)


def git_tree(files):
    """The name of a folder of these files (name: content) in git."""
    entries = (b"100644 " + name.encode() + b"\0" + git_object("blob", content).digest() for name, content in sorted(files.items()))
    return git_object("tree", b"".join(entries)).hexdigest()


def source(archive, url, version):
    """The lines of a port that fetch the sources."""
    digest = hashlib.sha512(archive).hexdigest()
    github = re.fullmatch(r"https://github\.com/([^/]+/[^/]+)/archive/refs/tags/([^/]+)\.tar\.gz", url)
    if github:
        tag = github[2].replace(version, "${VERSION}")
        return (f"vcpkg_from_github(\n    OUT_SOURCE_PATH SOURCE_PATH\n    REPO {github[1]}\n    REF \"{tag}\"\n"
                f"    SHA512 {digest}\n    HEAD_REF main\n)\n")
    return (f"vcpkg_download_distfile(ARCHIVE\n    URLS \"{url}\"\n    FILENAME \"ufp4-${{VERSION}}.tar.gz\"\n    SHA512 {digest}\n)\n"
            "vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE \"${ARCHIVE}\")\n")


def portfile(archive, url, version):
    text = (overlay / "portfile.cmake").read_text()
    first, last = text.find("get_filename_component(SOURCE_PATH "), text.find("vcpkg_check_features(")
    head = text.find("set(VCPKG_BUILD_TYPE ")
    if not 0 <= head < first < last:
        sys.exit("vcpkg_registry.py: portfile.cmake has not the parts that it had")
    return text[head:first] + source(archive, url, version) + "\n" + text[last:]


def with_version(path, entry):
    """The versions file with that entry first, in place of one with the same version."""
    old = json.loads(path.read_text())["versions"] if path.exists() else []
    return {"versions": [entry] + [other for other in old if other["version"] != entry["version"]]}


def with_baseline(path, version):
    all_ports = json.loads(path.read_text())["default"] if path.exists() else {}
    all_ports["ufp4"] = {"baseline": version, "port-version": 0}
    return {"default": dict(sorted(all_ports.items()))}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main(archive, url, folder):
    version = json.loads((overlay / "vcpkg.json").read_text())["version"]
    files = {name: (overlay / name).read_bytes() for name in ("usage", "vcpkg.json")}
    files["portfile.cmake"] = portfile(pathlib.Path(archive).read_bytes(), url, version).encode()
    folder = pathlib.Path(folder)
    for name, content in files.items():
        write(folder / "ports" / "ufp4" / name, content.decode())
    versions, baseline = folder / "versions" / "u-" / "ufp4.json", folder / "versions" / "baseline.json"
    entry = {"git-tree": git_tree(files), "version": version, "port-version": 0}
    write(versions, json.dumps(with_version(versions, entry), indent=2) + "\n")
    write(baseline, json.dumps(with_baseline(baseline, version), indent=2) + "\n")


if len(sys.argv) != 4:
    sys.exit("usage: vcpkg_registry.py ARCHIVE URL FOLDER")
main(*sys.argv[1:])
