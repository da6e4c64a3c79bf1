#!/usr/bin/env python3
# ufp4 - the study: many runs of train_lm, compared with the results of the UFP4 paper.
# SPDX-License-Identifier: Apache-2.0
"""usage: study.py power|run|ordering|depth|export|report|grid [OPTION]...   (study.py COMMAND --help)

Python 3.9 with numpy and scipy. run.sh installs those, builds train_lm and starts this.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = pathlib.Path(os.environ.get("UFP4_BUILD_DIR") or ROOT / "build")

try:
    import design
    import findings
    import grid
    import page
    import records
    import report
    import runner
    import second
    import stats
    import table
    import verdicts
    import words
except ModuleNotFoundError as missing:
    sys.exit(
        f"study: missing Python module: {missing.name}; apt-get install python3-numpy python3-scipy, or use "
        "examples/train_lm/study/run.sh, which installs them"
    )


def parser():
    out = argparse.ArgumentParser(prog="study.py", description="Trains many small models and compares 4-bit recipes.")
    commands = out.add_subparsers(dest="command", required=True)

    def command(name, text, *groups):
        sub = commands.add_parser(name, help=text, description=text)

        def place(flag, metavar, default, text):
            sub.add_argument(flag, type=pathlib.Path, metavar=metavar, default=default, help=text)

        if "folders" in groups:
            place("--out", "FOLDER", BUILD / "study", "the run folders (default: study/ in the build folder)")
        if "results" in groups:
            place("--results", "FOLDER", HERE / "results", "runs.jsonl.gz and power.json (default: results/ beside this file)")
        if "train" in groups:
            place("--train-lm", "FILE", BUILD / "release" / "examples" / "train_lm", "the program")
            sub.add_argument("--jobs", type=positive, default=1, metavar="N", help="runs at once, each on one core")
            sub.add_argument("--hours", type=positive_real, metavar="H", help="stop after H hours, with checkpoints")
        return sub

    power = command(
        "power",
        "Measures on small pilot runs how many seeds the study needs.",
        "folders",
        "results",
        "train",
    )
    power.add_argument(
        "--effect",
        type=positive_real,
        default=0.3,
        metavar="PERCENT",
        help="the loss difference to resolve: two standard errors (default 0.3)",
    )
    power.add_argument("--no-run", action="store_true", help="use the existing runs")
    run = command("run", "Makes the runs of the grid; continues after an interruption.", "folders", "train")
    run.add_argument("--grid", metavar="FILE", help="JSON in the form that `grid` prints (default: the first design)")
    run.add_argument("--design", choices=sorted(design.GRIDS), help="a part of the second design, docs/study_plan.md")
    run.add_argument("--seeds", type=positive, metavar="N", help="number of seeds of the blocks that have 5 or more")
    run.add_argument(
        "--only",
        metavar="TEXT",
        action="append",
        default=[],
        help="only runs whose name (model.recipe.sSEED) contains this; may be repeated",
    )
    ordering = command(
        "ordering",
        "Makes the runs of one ordering of the second design, and prints its verdict.",
        "folders",
        "train",
    )
    ordering.add_argument("better", help="a recipe, such as ufp4")
    ordering.add_argument("worse", help="a recipe, such as e2m1-baseline")
    ordering.add_argument("--model", choices=design.MODELS, default="nano", help="default: nano")
    ordering.add_argument("--looks", type=int, choices=(1, 2), default=1, help="looks at the data: 12 or 24 seeds")
    depth = command("depth", "Measures the shrinkage over depth, without training, into results/depth.csv.gz.", "results")
    depth.add_argument(
        "--program",
        type=pathlib.Path,
        metavar="FILE",
        default=BUILD / "release" / "examples" / "train_lm_depth",
        help="train_lm_depth",
    )
    export = command(
        "export",
        "Merges complete runs into the files of results/ and copies power.json, from which the report can be made.",
        "folders",
        "results",
    )
    export.add_argument(
        "--replace", action="store_true", help="replace runs of the same name"
    )
    rep = command(
        "report",
        "Writes the HTML report and the results section of docs/study.md from the runs of the folders, and from those "
        "of the results file that no folder has.",
        "folders",
        "results",
    )
    rep.add_argument("--html", type=pathlib.Path, metavar="FILE", help="default: study.html in --out")
    rep.add_argument(
        "--page", type=pathlib.Path, metavar="FILE", help="a Markdown page with result markers (docs/study.md)"
    )
    rep.add_argument(
        "--second-page", type=pathlib.Path, metavar="FILE", help="the page of the second design (docs/study_second.md)"
    )
    command("grid", "Prints the default grid as JSON.")
    return out


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


def positive_real(text):
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return value


def log(text):
    print(text, flush=True)


def train(runs, args):
    study = runner.Study(runs, args.out, args.train_lm.absolute(), ROOT, args.jobs, args.hours, log=log)
    done, all_runs, failed = study.run()
    log(f"{done} of {all_runs} runs done" + (f"; {len(failed)} failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0 if done == all_runs else 130


def is_second(record):
    """Of the second design, whose results are tables."""
    return bool({"trunk", "noise", "second", "forks", "gradients", "sr"} & set(record["uses"]))


def everything(args):
    """The runs of the folders, those of the results file that no folder has, and messages on runs left out: all of the
    first design."""
    old, messages = records.read_results(args.results / "runs.jsonl.gz")
    new, more = records.read_folders(args.out)
    new = [r for r in new if not is_second(r)]
    merged, clashes = records.merge(old, new, replace=True)
    log(f"{len(new)} runs of {args.out}, {len(merged) - len(new)} others of {args.results / 'runs.jsonl.gz'}")
    return merged, messages + more + clashes


def second_design(args, replace=True):
    """The runs and the gradients of the second design, of the folders and of the tables; and messages."""
    new = [r for r in records.read_folders(args.out)[0] if is_second(r)]
    merged, messages = records.merge(table.read_runs(args.results / "second.csv.gz"), new, replace)
    own = {r["key"] for r in new} if replace else set()
    key = lambda g: f"{g['model']}.{g['recipe']}.s{g['seed']}"
    kept = table.read(args.results / "gradients.csv.gz")
    known = {key(g) for g in kept} - own
    gradients = [g for g in kept if key(g) in known] + [g for g in table.gradient_rows(new) if key(g) not in known]
    return merged, gradients, messages


def command_power(args):
    status = 0
    runs = grid.runs_of(grid.PILOTS)
    if not args.no_run:
        status = train(runs, args)
    merged, _ = everything(args)
    own = {r["key"] for r in records.read_folders(args.out)[0]}
    pilots = [block["model"] for block in grid.PILOTS]
    saved = []
    for model in pilots + sorted({r["model"] for r in merged} - set(pilots)):
        group = [r for r in merged if r["model"] == model and r["recipe"] in grid.PILOT]
        losses = findings.losses_of(group, "train")
        seeds, differences = stats.relative_differences(losses.get("ufp4", {}), losses.get("e2m1-baseline", {}))
        if not own.intersection(r["key"] for r in group):
            continue  # runs of the results file, which has its own power.json
        if len(seeds) < 2:
            if model in pilots:
                log(f"{model}: {len(seeds)} paired seeds; a standard deviation needs 2")
            continue
        seconds = [r["seconds"] for r in group if r["seconds"]]
        saved.append(
            {
                "model": model,
                "arguments": group[0]["shape"],
                "differences_percent": [round(d, 5) for d in differences],
                "seconds_a_run": round(sum(seconds) / len(seconds), 2) if seconds else None,
                **dataclasses.asdict(stats.power(differences, args.effect)),
            }
        )
    for pilot in saved:
        log("")
        for line in page.power_lines(pilot):
            log(line)
    if not saved and not own:
        log(f"{args.out} has no pilot run")
    if saved:
        records.write_atomically(args.out / "power.json", json.dumps(saved, indent=1) + "\n")
        log(f"\nwritten: {args.out / 'power.json'}")
    return status


def command_run(args):
    if args.design and (args.grid or args.seeds):
        raise grid.GridError("--design: has its own grid and seeds; give no --grid, --seeds")
    runs = design.runs(args.design) if args.design else grid.runs_of(grid.read(args.grid), args.seeds)
    if args.only:
        runs = [r for r in runs if any(text in r.key for text in args.only)]
        if not runs:
            raise grid.GridError("--only: no run matches; a name is like micro.ufp4.s1")
    return train(runs, args)


def command_ordering(args):
    pair = (args.better, args.worse)
    those = design.orderings(args.model)
    if pair not in {(b, w) for _, b, w in those}:
        known = ", ".join(f"{b} {w}" for _, b, w in those)
        raise grid.GridError(f"ordering: unknown ordering: {args.better} {args.worse}; those of the paper: {known}")
    status = train(grid.runs_of(design.orderings_grid(args.model, [pair], args.looks)), args)
    made = records.read_folders(args.out)[0]
    claim, *_, verdict = second.orderings(made, args.model, {pair})[0]
    log(f"\n{claim} ({args.better} < {args.worse}): {second.LABELS[verdict.label]}")
    if verdict.difference:
        log(
            f"difference {words.with_interval(verdict.difference)} % of the loss, {verdict.difference.n} seeds; "
            f"p difference {words.p_value(verdict.holm_difference)}, p equivalent {words.p_value(verdict.holm_equivalent)}, "
            f"corrected for the {len(those)} orderings of {args.model}; level {verdicts.LEVEL / verdicts.LOOKS}"
        )
    return status


def command_depth(args):
    done = subprocess.run([args.program], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise runner.StudyError(f"--program: {args.program}: exit status {done.returncode}")
    table.write(args.results / "depth.csv.gz", table.DEPTH, table.rows_of(done.stdout))
    log(f"written: {args.results / 'depth.csv.gz'}; now: report")
    return 0


def export_second(args):
    merged, gradients, messages = second_design(args, args.replace)
    if merged:
        table.write(args.results / "second.csv.gz", table.RUNS, table.run_rows(merged))
        table.write(args.results / "gradients.csv.gz", table.GRADIENTS, gradients)
        log(f"{args.results / 'second.csv.gz'}: {len(merged)} runs; gradients.csv.gz: {len(gradients)} rows")
    return messages


def command_export(args):
    old, messages = records.read_results(args.results / "runs.jsonl.gz")
    new, more = records.read_folders(args.out)
    new, more = [r for r in new if not is_second(r)], more + export_second(args)
    merged, clashes = records.merge(old, new, args.replace)
    for message in messages + more + clashes:
        log(message)
    records.write_results(args.results / "runs.jsonl.gz", merged)
    log(f"{args.results / 'runs.jsonl.gz'}: {len(merged)} runs, {len(merged) - len(old)} of them new")
    measured = args.out / "power.json"
    if read_power(measured):
        records.write_atomically(args.results / "power.json", measured.read_text(encoding="utf-8"))
        log(f"{args.results / 'power.json'}: copied from {measured}")
    return 0


def command_report(args):
    merged, messages = everything(args)
    found = findings.find(merged, read_power(args.out / "power.json") or read_power(args.results / "power.json"))
    found["messages"] = messages + found["messages"]
    target = args.html or args.out / "study.html"
    records.write_atomically(target, report.html_of(found))
    log(f"{len(merged)} runs; written: {target}")
    if args.page:
        page.update(args.page, found)
        log(f"written: {args.page}")
    if args.second_page:
        runs, gradients, _ = second_design(args)
        depth = table.read(args.results / "depth.csv.gz")
        page.update_blocks(args.second_page, second.sections(runs, gradients, merged, depth))
        for name, picture in second.pictures(runs, gradients, depth, merged).items():
            records.write_atomically(args.second_page.parent / "pictures" / name, picture)
        log(f"written: {args.second_page}")
    for message in found["messages"]:
        log(f"left out: {message}")
    return 0


def read_power(path):
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return [p for p in value if isinstance(p, dict) and "sd" in p] or None
    except (OSError, ValueError, TypeError):
        return None


def interrupted(*_):
    raise KeyboardInterrupt  # the runs are saved


def main():
    args = parser().parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell starts `study.py &` with it ignored
        signal.signal(number, interrupted)
    try:
        if args.command == "grid":
            print(json.dumps(grid.DEFAULT, indent=1))
            return 0
        by_name = {"power": command_power, "run": command_run, "ordering": command_ordering, "depth": command_depth}
        by_name |= {"export": command_export, "report": command_report}
        return by_name[args.command](args)
    except BrokenPipeError:  # `grid | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (grid.GridError, runner.StudyError, page.PageError, OSError) as error:
        print(f"study: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
