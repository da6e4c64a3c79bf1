#!/usr/bin/env python3
"""ufp4 - tests: cmake/Dockerfile installs the sets of cmake/packages.txt, and README names its compilers; the CI workflows run presets and scripts
that exist; CITATION.cff has the version; lists of instruction sets agree.

SPDX-License-Identifier: Apache-2.0

usage: lists_test.py [SOURCE FOLDER]
Exit status 77 without PyYAML, after the comparison of the package lists.
"""
import json
import pathlib
import re
import sys

SUITES = ["demo", "default", "full", "nightly"]
RELEASES = ["bookworm", "trixie", "sid"]  # the compilers of tests/compilers.sh
TOP_LEVEL_KEYS = {"name", "run-name", "on", "permissions", "env", "defaults", "concurrency", "jobs"}

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
errors = []


def check(condition, message):
    if not condition:
        errors.append(message)


def package_sets(text):
    """The sets of packages.txt by name."""
    sets = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = re.fullmatch(r"([a-z]+): ([a-z0-9.+-]+(?: +[a-z0-9.+-]+)*)", line)
        if match:
            sets.setdefault(match[1], []).extend(match[2].split())
        else:
            check(not line or line.startswith("#"), f"cmake/packages.txt:{number}: not '<set>: <packages>': {line}")
    return sets


def check_compilers(packages):
    """README has the line that tests/compilers.sh --line prints if all of them pass, and nightly.yml a job for each."""
    versions = {kind: sorted(int(name.rpartition("-")[2]) for name in packages if name.startswith(kind)) for kind in ("g++-", "clang-")}
    line = f"g++ {', '.join(map(str, versions['g++-']))}; clang {', '.join(map(str, versions['clang-']))} ("
    check(line in (root / "README.md").read_text(), f"README.md does not name the compilers of cmake/packages.txt: {line}")
    jobs = re.findall(r"compiler: (\S+)}", (root / ".github/workflows/nightly.yml").read_text())
    wanted = [name.replace("clang-", "clang++-") for name in packages]
    check(sorted(jobs) == sorted(wanted), f"nightly.yml: not a job for each compiler of cmake/packages.txt: {sorted(set(jobs) ^ set(wanted))}")


def check_tiers():
    """What lists the instruction sets, and their parents, agrees with UFP4_EACH_ISA of config.hpp."""
    listed = re.search(r"#define UFP4_EACH_ISA\(x\)((?:.*\\\n)*.*)", (root / "include/ufp4/config.hpp").read_text())[1]
    parents = dict(re.findall(r"x\((\w+), \w+, (\w+)\)", listed))
    presets = json.loads((root / "CMakePresets.json").read_text())["configurePresets"]
    isas = next(p for p in presets if p["name"] == "sanitize-all")["cacheVariables"]["UFP4_ISAS"].split(";")
    check(isas == list(parents), f"CMakePresets.json: UFP4_ISAS of sanitize-all is {isas}, not config.hpp's {list(parents)}")
    for file, row in (("include/ufp4/cpu/isa.hpp", r"^/// \| (\w+) +\|[^|]*\| (\w+) +\|$"), ("docs/cpu.md", r"^\| `(\w+)` \|[^|]*\| `(\w+)` \|$")):
        table = dict(re.findall(row, (root / file).read_text(), re.MULTILINE))
        table.pop("isa", None)
        check(table == parents, f"{file}: its table of instruction sets is {table}, not config.hpp's {parents}")
    manual = re.search(r"^\.Cm scalar ,.*\n.*\n.*", (root / "examples/ufp4/ufp4.1").read_text(), re.MULTILINE)[0]
    missing = [name for name in parents if name not in re.findall(r"\w+", manual)]
    check(not missing, f"ufp4.1: instruction sets that it does not name: {missing}")


def docker_packages(text):
    """What the Dockerfile's apt-get installs."""
    match = re.search(r"^RUN .*?apt-get install ([^&]*)", text.replace("\\\n", " "), re.MULTILINE)
    return [word for word in match[1].split() if not word.startswith("-")] if match else []


def check_packages():
    sets = package_sets((root / "cmake/packages.txt").read_text())
    check(list(sets) == [*SUITES, *RELEASES], f"cmake/packages.txt: sets {list(sets)}, not {[*SUITES, *RELEASES]}")
    for group in SUITES, RELEASES:
        names = [name for key in group for name in sets.get(key, [])]
        check(len(names) == len(set(names)), f"cmake/packages.txt: twice: {sorted(n for n in set(names) if names.count(n) > 1)}")
    check_compilers([name for key in RELEASES for name in sets.get(key, [])])
    wanted = {"ca-certificates", "git", *sets.get("demo", []), *sets.get("default", [])}
    installed = set(docker_packages((root / "cmake/Dockerfile").read_text()))
    check(installed >= wanted, f"cmake/Dockerfile: missing: {sorted(wanted - installed)}")
    check(installed <= wanted, f"cmake/Dockerfile: not in the sets demo and default: {sorted(installed - wanted)}")


def presets_run(job):
    """The presets of the job's `cmake --workflow` commands, with every value of the job's matrix."""
    for step in job.get("steps", []):
        for word in re.findall(r"--preset[ =](\$\{\{.*?\}\}|\S+)", step.get("run", "")):
            variable = re.fullmatch(r"\$\{\{ *matrix\.([a-z_]+) *\}\}", word)
            yield from job["strategy"]["matrix"][variable[1]] if variable else [word]


def check_workflow(file, workflow):
    """Yields the presets that its jobs run."""
    keys = {"on" if key is True else key for key in workflow}  # YAML 1.1 reads the key `on` as true
    check(keys <= TOP_LEVEL_KEYS, f"{file}: unknown keys: {sorted(keys - TOP_LEVEL_KEYS)}")
    presets = json.loads((root / "CMakePresets.json").read_text())["workflowPresets"]
    existing = {preset["name"] for preset in presets}
    for name, job in workflow.get("jobs", {}).items():
        check("runs-on" in job, f"{file}: job {name}: no runs-on")
        uses = [step.get("uses", "") for step in job.get("steps", [])]
        check(any(use.startswith("actions/checkout@") for use in uses), f"{file}: job {name}: no checkout step")
        run = list(presets_run(job))
        for preset in run:
            check(preset in existing, f"{file}: job {name}: CMakePresets.json has no workflow preset '{preset}'")
        scripts = [word for step in job.get("steps", []) for word in re.findall(r"\b(?:tests|examples)/\w+\.sh\b", step.get("run", ""))]
        for script in scripts:
            check((root / script).is_file(), f"{file}: job {name}: there is no {script}")
        check(run or scripts or "ctest" in str(job), f"{file}: job {name} tests nothing")
        yield from run


def check_citation():
    numbers = re.findall(r"^#define UFP4_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", (root / "include/ufp4/version.hpp").read_text(), re.MULTILINE)
    check(f"\nversion: {'.'.join(numbers)}\n" in (root / "docs/CITATION.cff").read_text(), "CITATION.cff: not the version of version.hpp")


check_packages()
check_citation()
check_tiers()
try:
    import yaml
except ImportError:
    yaml = None
if yaml:
    run = []
    for file in sorted((root / ".github/workflows").glob("*.yml")):
        try:
            run += check_workflow(file.name, yaml.safe_load(file.read_text()))
        except yaml.YAMLError as error:
            errors.append(f"{file.name}: not YAML: {error}")
    check(run, ".github/workflows: no job runs a workflow preset")
if errors:
    sys.exit("\n".join(errors))
if not yaml:
    print("SKIPPED: no PyYAML (apt-get install python3-yaml), so .github/workflows was not checked")
    sys.exit(77)
