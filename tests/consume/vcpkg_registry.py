# ufp4 - the registry port of vcpkg_registry.py: its files, versions and baseline, against git and the archive.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 vcpkg_registry.py SOURCE ARCHIVE WORK VERSION      leaves the port for an archive at any address in WORK/registry
import hashlib
import json
import pathlib
import re
import subprocess
import sys

source, archive, work, version = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]


def made(folder, url):
    script = source / "cmake/packaging/vcpkg_registry.py"
    subprocess.run([sys.executable, script, archive, url, folder], check=True)


def git_tree(folder):
    """The name of ports/ufp4 in git, of git itself."""
    repository = work / "git"
    run = lambda *words: subprocess.run(["git", "-C", folder, f"--git-dir={repository}", f"--work-tree={folder}", *words], check=True,
                                        capture_output=True, text=True).stdout.split()
    subprocess.run(["git", "init", "--quiet", "--bare", repository], check=True)
    run("add", "--force", "ports")
    return run("rev-parse", run("write-tree")[0] + ":ports/ufp4")[0]


def check(folder, old_versions, ports):
    versions = json.loads((folder / "versions/u-/ufp4.json").read_text())["versions"]
    assert versions[0] == {"git-tree": git_tree(folder), "version": version, "port-version": 0}, versions
    assert [v["version"] for v in versions[1:]] == old_versions, versions
    baseline = json.loads((folder / "versions/baseline.json").read_text())["default"]
    assert list(baseline) == ports and baseline["ufp4"] == {"baseline": version, "port-version": 0}, baseline
    port = (folder / "ports/ufp4/portfile.cmake").read_text()
    digest = re.search(r"SHA512 (\w+)", port)[1]
    assert digest == hashlib.sha512(pathlib.Path(archive).read_bytes()).hexdigest()
    assert "CURRENT_LIST_DIR}/../" not in port and port.startswith("set(VCPKG_BUILD_TYPE release)"), port
    return port


# A registry with other ports and an older version, and an archive of GitHub's.
github = work / "github"
(github / "versions/u-").mkdir(parents=True)
(github / "versions/u-/ufp4.json").write_text(json.dumps({"versions": [{"git-tree": "0" * 40, "version": "0.0.9", "port-version": 0}]}))
(github / "versions/baseline.json").write_text(json.dumps({"default": {"zlib": {"baseline": "1", "port-version": 0}, "abseil":
                                                                       {"baseline": "2", "port-version": 1}}}))
for _ in range(2):  # again: the same entries
    made(github, f"https://github.com/ufp4/ufp4/archive/refs/tags/v{version}.tar.gz")
port = check(github, ["0.0.9"], ["abseil", "ufp4", "zlib"])
assert 'vcpkg_from_github(\n    OUT_SOURCE_PATH SOURCE_PATH\n    REPO ufp4/ufp4\n    REF "v${VERSION}"\n' in port, port
made(work / "registry", f"https://example.org/ufp4-{version}.tar.gz")
port = check(work / "registry", [], ["ufp4"])
assert f'URLS "https://example.org/ufp4-{version}.tar.gz"' in port, port
