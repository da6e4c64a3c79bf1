# ufp4 - compact records of run folders, and the file of all runs.
# SPDX-License-Identifier: Apache-2.0
"""A record has the data of one complete run that the report needs, about two kilobytes. results/runs.jsonl.gz has one
record per line, sorted by key; `export` adds the runs of a folder to it.

A folder is a run of the study if it has study.json, which is written before train_lm starts. A complete one has
result.json as well, which train_lm writes last.
"""

import csv
import gzip
import json
import math
import os
import pathlib
import zlib

CURVE_POINTS = 40
PROBE_STEPS = 9  # of 600 steps probed every 75, and the first


class Unreadable(ValueError):
    """The reason why a folder is not a complete run."""


def read_folder(folder):
    folder = pathlib.Path(folder)
    plan = _json(folder / "study.json", "not a run of the study")
    result = _json(folder / "result.json", "not complete yet")
    try:
        record = {
            "key": f"{plan['model']}.{plan['recipe']}.s{plan['seed']}",
            "model": plan["model"],
            "recipe": plan["recipe"],
            "seed": int(plan["seed"]),
            "uses": plan["uses"],
            "shape": plan["shape"],
            "arguments": plan["arguments"],
            "machine": plan["machine"],
            "machines": plan.get("machines") or [plan["machine"]],
        }
        record.update(train_loss=_real(result["final_train_loss"]), valid_loss=_real(result["valid_loss"]))
        record["average_valid_loss"] = _real(result.get("average_valid_loss"))
        for name in ("steps", "tokens", "flops", "parameters", "seconds"):
            record[name] = _real(result[name])
        for name in ("share_quantize", "share_gemm"):
            record[name] = _real(result.get(name))
        record["checkpoint_hash"] = str(result.get("checkpoint_hash", ""))
        config = result.get("config") if isinstance(result.get("config"), dict) else {}
        record["text"] = str(config.get("text_hash", ""))
        record["text_source"] = str(config.get("text_source", ""))
        record["text_bytes"] = [_real(config.get(name)) for name in ("train_bytes", "validation_bytes")]
        record["eigen"] = str(result.get("eigen", ""))
        record["kernels"] = str(result.get("kernels", ""))
        record["log"] = _log(folder / "log.csv", record["steps"])
        record["probes"] = _probes(folder / "probes.csv")
        record["gradients"] = _gradients(folder / "gradients.csv")
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise Unreadable(f"{folder.name}: damaged ({type(error).__name__}: {error})") from None
    return record


def _json(path, otherwise):
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Unreadable(f"{path.parent.name}: {otherwise}") from None
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path.parent.name}: {path.name} cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise Unreadable(f"{path.parent.name}: {path.name} is not a JSON object")
    return value


def _real(x):
    """A float; None if it is absent or not finite, as the loss of a diverged run."""
    if x is None or isinstance(x, bool):
        return None
    value = float(x)
    return value if math.isfinite(value) else None


def _digits(x, n=6):
    return None if x is None else float(f"{x:.{n}g}")


def _mean(values):
    kept = [v for v in values if v is not None and math.isfinite(v)]
    return _digits(sum(kept) / len(kept)) if kept else None


def _rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _number(text):
    try:
        return _real(text) if text not in (None, "") else None
    except ValueError:
        return None


def _log(path, steps):
    """Training loss in CURVE_POINTS equal parts of the run, and every evaluation: [step, loss] each."""
    parts, valid = [[] for _ in range(CURVE_POINTS)], []
    for row in _rows(path):
        step, loss = int(row["step"]), _number(row["train_loss"])
        part = min(CURVE_POINTS - 1, max(0, (step - 1) * CURVE_POINTS // max(1, int(steps))))
        parts[part].append((step, loss))
        if _number(row.get("valid_loss")) is not None:
            valid.append([step, _digits(_number(row["valid_loss"]))])
    train = [[p[-1][0], _mean([loss for _, loss in p])] for p in parts if p]
    return {"train": train, "valid": valid[-CURVE_POINTS:]}


def _probes(path):
    """The means of probes.csv at each step: per operand, per operand and layer, and of the residual stream per layer."""
    if not path.exists():
        return None
    rows = [
        (int(r["step"]), int(r["layer"]), r["linear"], r["operand"], _number(r["attenuation"]), _number(r["sqnr_db"]))
        for r in _rows(path)
    ]
    if not rows:
        return None
    steps = sorted({r[0] for r in rows})
    if len(steps) > PROBE_STEPS:
        steps = [steps[round(i * (len(steps) - 1) / (PROBE_STEPS - 1))] for i in range(PROBE_STEPS)]
    layers = sorted({r[1] for r in rows})
    inside = [r for r in rows if not r[2].startswith("residual")]
    residual = [r for r in rows if r[2].startswith("residual")]
    operands = list(dict.fromkeys(r[3] for r in inside))
    measured = (("attenuation", 4), ("sqnr_db", 5))
    return {
        "steps": steps,
        "layers": layers,
        "operands": {
            o: {name: [_mean([r[i] for r in inside if r[0] == s and r[3] == o]) for s in steps] for name, i in measured}
            for o in operands
        },
        "by_layer": {
            o: {
                name: [
                    [_mean([r[i] for r in inside if r[0] == s and r[1] == k and r[3] == o]) for k in layers] for s in steps
                ]
                for name, i in measured
            }
            for o in operands
        },
        "residual": (
            {
                name: [[_mean([r[i] for r in residual if r[0] == s and r[1] == k]) for k in layers] for s in steps]
                for name, i in measured
            }
            if residual
            else None
        ),
    }


GRADIENT_MEASURES = ("gain", "bias", "variance", "cosine", "batch_variance")  # the last may be absent


def _gradients(path):
    """The means of gradients.csv over its steps, by GEMMs and parameter; None without the file."""
    if not path.exists():
        return None
    by = {}
    for row in _rows(path):
        by.setdefault((row["gemm"], row["parameter"]), []).append(row)
    return [
        {
            "gemm": gemm,
            "parameter": parameter,
            "batches": len(rows),
            "draws": int(rows[0]["draws"]),
            **{name: _mean([_number(r.get(name)) for r in rows]) for name in GRADIENT_MEASURES},
        }
        for (gemm, parameter), rows in by.items()
    ]


def read_folders(out):
    """Every complete run in `out`, and a message for every other folder."""
    records, messages = [], []
    out = pathlib.Path(out)
    for folder in sorted(out.iterdir()) if out.is_dir() else []:
        if folder.is_dir() and not folder.name.startswith("."):
            try:
                records.append(read_folder(folder))
            except Unreadable as why:
                messages.append(str(why))
    return records, messages


# ---- the file of all runs


def read_results(path):
    """The records of runs.jsonl.gz, and a message for every damaged line. Without a file there are no records."""
    records, messages = [], []
    path = pathlib.Path(path)
    if not path.exists():
        return records, messages
    try:
        text = gzip.decompress(path.read_bytes()).decode("utf-8")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        return records, [f"{path.name}: damaged ({type(error).__name__}: {error})"]
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            for name in ("key", "model", "recipe", "seed", "shape", "arguments", "steps", "log"):
                record[name]
            records.append(record)
        except (ValueError, KeyError, TypeError) as error:
            messages.append(f"{path.name}, line {number}: damaged ({type(error).__name__}: {error})")
    return records, messages


def merge(old, new, replace=False):
    """One record per key. If both have one, the old one is kept unless `replace`; a message reports different runs."""
    merged, messages = {r["key"]: r for r in old}, []
    for record in new:
        before = merged.get(record["key"])
        if before is not None and any(before.get(k) != record.get(k) for k in ("arguments", "checkpoint_hash", "text")):
            other = f"the results file has another run of this name, of commit {before['machine'].get('commit', '?')}"
            kept = "the run of the folder is used" if replace else "which is kept; --replace takes the new one"
            messages.append(f"{record['key']}: {other}, {'but ' if replace else ''}{kept}")
        if before is None or replace:
            merged[record["key"]] = record
    return [merged[k] for k in sorted(merged)], messages


def write_results(path, records):
    text = "".join(json.dumps(r, separators=(",", ":"), sort_keys=True) + "\n" for r in records)
    write_atomically(path, gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0))


def write_atomically(path, data):
    """data: text or bytes. The file is the old or the new one, even if this process is killed."""
    data = data.encode("utf-8") if isinstance(data, str) else data
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
