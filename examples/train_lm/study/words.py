# ufp4 - numbers as text, the same in the HTML report and in docs/study.md.
# SPDX-License-Identifier: Apache-2.0
MINUS = "−"


def signed(x, digits=3):
    if x is None:
        return "–"
    return f"{x:+.{digits}f}".replace("-", MINUS) if round(x, digits) else plain(0.0, digits)


def plain(x, digits=5):
    return "–" if x is None else f"{x:.{digits}f}".replace("-", MINUS)


def with_interval(i, digits=3, sign=True):
    """+0.412 [+0.301, +0.523]; the mean of one seed has no interval."""
    if i is None:
        return "–"
    one = (lambda v: signed(v, digits)) if sign else (lambda v: plain(v, digits))
    return one(i.mean) if i.low is None else f"{one(i.mean)} [{one(i.low)}, {one(i.high)}]"


def with_half(value, half, digits=3, sign=False):
    return (signed if sign else plain)(value, digits) + (f" ± {half:.{digits}f}" if half is not None else "")


def percent(x):
    return "–" if x is None else f"{100 * x:.0f}%"


def p_value(p):
    return "–" if p is None else "< 0.0001" if p < 1e-4 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def count(x):
    if x is None:
        return "–"
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= size:
            return f"{x / size:.3g} {letter}"
    return f"{x:.0f}"


def command(arguments, key=None):
    out = f" --out {key}" if key else ""
    return "train_lm " + " ".join(arguments) + " --threads 1" + out
