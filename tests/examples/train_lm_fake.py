#!/usr/bin/env python3
# ufp4 - tests: a replacement of train_lm that writes its files with known losses, in milliseconds.
# SPDX-License-Identifier: Apache-2.0
"""The final loss is (1.5 + 0.8 (C / 1e12)^-0.25) (1 + effect of the recipe), times a factor of the seed that all recipes
share, times a factor of the run. FAKE_STEP_SECONDS makes it slow, FAKE_FAIL=TEXT fails runs whose folder contains TEXT,
FAKE_DIVERGE=TEXT ends them as train_lm ends a run whose loss is not finite.
"""

import json
import math
import os
import pathlib
import random
import signal
import sys
import time

EFFECT = {
    "bf16": 0.0,
    "ufp4": 0.010,
    "e2m1-baseline": 0.013,
    "ufp4-rht-none": 0.016,
    "e2m1-rht-all": 0.012,
    "nvfp4": 0.0131,
}
NOISE = 0.0005
ATTENUATION = {"e2m1-baseline": 0.997, "e2m1-rht-all": 0.994, "nvfp4": 0.997}


def options(words):
    given, at = {}, 0
    while at < len(words):
        name = words[at][2:]
        takes = name not in ("moe", "resume", "quiet")
        given[name] = words[at + 1] if takes else True
        at += 2 if takes else 1
    return given


def drawn(*key):
    return random.Random("/".join(map(str, key))).gauss(0, 1)


def write(path, text):
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


def main():
    o = options(sys.argv[1:])
    out = pathlib.Path(o["out"])
    out.mkdir(parents=True, exist_ok=True)
    if os.environ.get("FAKE_FAIL") and os.environ["FAKE_FAIL"] in out.name:
        print("train_lm: there is no text")
        return 1
    diverges = os.environ.get("FAKE_DIVERGE", "") and os.environ["FAKE_DIVERGE"] in out.name
    width, layers = int(o.get("width", 64 if o.get("size") == "nano" else 128)), int(o.get("layers", 4))
    steps, seed, recipe = int(o.get("steps", 100)), int(o["seed"]), o.get("recipe", "ufp4")
    parameters = 12 * layers * width**2
    tokens = steps * 4096
    flops = 6.0 * parameters * tokens
    config = {"recipe": recipe, "seed": seed, "data_seed": int(o["data-seed"]), "steps": steps, "layers": layers}
    write(out / "config.json", json.dumps(config))
    checkpoint = out / "checkpoint.safetensors"
    begin = 0
    if "from" in o and not pathlib.Path(o["from"]).exists():
        print("train_lm: no checkpoint to start from", file=sys.stderr)
        return 1
    if o.get("resume"):
        try:
            begin = int(checkpoint.read_text())
        except ValueError:
            print("train_lm: checkpoint.safetensors is damaged", file=sys.stderr)
            return 1
    model = f"{width}x{layers}x{'moe' if 'moe' in o else 'dense'}"
    final = (1.5 + 0.8 * (flops / 1e12) ** -0.25) * (1 + EFFECT.get(recipe, 0.015))
    final *= (1 + 0.01 * drawn(seed, model)) * (1 + NOISE * drawn(seed, recipe, model))

    def loss(step):
        return final * (1 + 1.5 * math.exp(-8 * step / steps)) * (1 + 0.002 * drawn(seed, step))

    log = ["step,tokens,flops,lr,train_loss,valid_loss,grad_norm,seconds"]
    probes = ["step,layer,linear,operand,attenuation,sqnr_db"]
    stopped = []
    signal.signal(signal.SIGINT, lambda *_: stopped.append(True))
    for step in range(1, steps + 1):
        valid = f"{loss(step) * 1.02:.6f}" if step == steps else ""
        log.append(
            f"{step},{step * 4096},{flops * step / steps:.6g},0.001,{loss(step):.6f},{valid},0.5,{step * 0.1:.3f}"
        )
        if int(o.get("probe-every", 0)) and step % int(o["probe-every"]) == 0 and recipe != "bf16":
            a = ATTENUATION.get(recipe, 1.0003)
            for layer in range(layers):
                for operand in ("X", "W", "dY", "W^T", "dY^T", "X^T"):
                    probes.append(
                        f"{step},{layer},qkv,{operand},{a + 1e-4 * drawn(seed, layer, operand):.6f},"
                        f"{20 + layer * 0.1 + drawn(seed, step, operand) * 0.1:.3f}"
                    )
                probes.append(
                    f"{step},{layer},residual,h,{a ** (layer + 1) + 1e-5 * drawn(seed, layer):.6f},{25 - layer}"
                )
        if step > begin:
            time.sleep(float(os.environ.get("FAKE_STEP_SECONDS", 0)))
            if step % int(o.get("checkpoint-every", 10)) == 0 or stopped:
                write(out / "log.csv", "\n".join(log) + "\n")
                write(checkpoint, str(step))
            if stopped:
                return 130
    if "keep-at" in o:
        write(out / f"checkpoint-{o['keep-at']}.safetensors", o["keep-at"])
    write(out / "log.csv", "\n".join(log) + "\n")
    write(out / "probes.csv", "\n".join(probes) + "\n")
    tail = [loss(s) for s in range(steps - steps // 10 + 1, steps + 1)]
    write(checkpoint, str(steps))
    write(
        out / "result.json",
        json.dumps(
            {
                "config": {**config, "text_hash": "t"},
                "final_train_loss": None if diverges else sum(tail) / len(tail),
                "valid_loss": None if diverges else loss(steps) * 1.02,
                "steps": steps,
                "tokens": tokens,
                "flops": flops,
                "parameters": parameters,
                "seconds": 10.0 + 0.1 * seed,
                "share_quantize": 0.3,
                "share_gemm": 0.4,
                "checkpoint_hash": f"{seed}{recipe}{model}",
            }
        ),
    )
    return 3 if diverges else 0


sys.exit(main())
