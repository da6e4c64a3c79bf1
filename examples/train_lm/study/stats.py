# ufp4 - the statistics of the study: paired differences, the number of seeds, Holm's correction, the scaling law.
# SPDX-License-Identifier: Apache-2.0
"""Runs of one seed have the same data and the same initial parameters under every recipe, so recipes are compared seed
by seed: the part of the loss that depends only on the seed cancels in the difference.
"""

import dataclasses
import math

import numpy
import scipy.stats


@dataclasses.dataclass
class Interval:
    """A mean over n seeds with its two-sided 95% Student t interval, and the p value of "the mean is 0".

    n = 1 has a mean only: sd, low, high and p are None. Equal values have sd 0 and an interval without width.
    """

    n: int
    mean: float
    sd: float = None
    low: float = None
    high: float = None
    p: float = None


def interval(values):
    values = numpy.asarray(values, dtype=float)
    n = len(values)
    if n == 0:
        return None
    mean = float(values.mean())
    if n == 1:
        return Interval(1, mean)
    sd = float(values.std(ddof=1))
    error = sd / math.sqrt(n)
    half = float(scipy.stats.t.ppf(0.975, n - 1)) * error
    if error == 0:
        return Interval(n, mean, 0.0, mean, mean, 1.0 if mean == 0 else 0.0)
    p = float(2 * scipy.stats.t.sf(abs(mean) / error, n - 1))
    return Interval(n, mean, sd, mean - half, mean + half, p)


def relative_differences(losses, baseline):
    """{seed: loss} of two recipes -> the seeds both have, and 100 (loss - baseline) / baseline of each, in percent."""
    seeds = sorted(set(losses) & set(baseline))
    return seeds, [100.0 * (losses[s] - baseline[s]) / baseline[s] for s in seeds]


def paired(losses, baseline):
    return interval(relative_differences(losses, baseline)[1])


def verdict(difference):
    """difference: an Interval of a difference that is negative in the paper."""
    if difference is None:
        return "no data"
    if difference.high is None or not (difference.high < 0 or difference.low > 0):
        return "unresolved"
    return "confirmed" if difference.high < 0 else "reversed"


def holm(p_values, family=0):
    """Holm's step-down: adjusted p values, in the order given; None stays None. family: the number of
    tests to correct for, including those that have no p value yet."""
    order = sorted((i for i, p in enumerate(p_values) if p is not None), key=lambda i: p_values[i])
    adjusted, most = [None] * len(p_values), 0.0
    for rank, i in enumerate(order):
        most = max(most, min(1.0, (max(len(order), family) - rank) * p_values[i]))
        adjusted[i] = most
    return adjusted


@dataclasses.dataclass
class Power:
    """How many seeds make `effect` (percent) as large as two standard errors of a mean paired difference."""

    pilot_seeds: int
    sd: float  # of the paired differences, percent
    sd_high: float  # an upper bound of sd with 80% confidence; for a pilot of 5 seeds about 1.6 sd
    effect: float
    seeds: int  # max(5, (2 sd / effect)^2), rounded up
    seeds_high: int  # the same for sd_high
    half_width: float  # of the 95% interval expected with `seeds` seeds, percent


def power(differences, effect=0.3, least=5):
    n = len(differences)
    if n < 2:
        raise ValueError(f"a standard deviation needs at least 2 paired seeds, got {n}")
    sd = float(numpy.std(differences, ddof=1))
    sd_high = sd * math.sqrt((n - 1) / float(scipy.stats.chi2.ppf(0.2, n - 1)))
    wanted = lambda s: max(least, math.ceil((2 * s / effect) ** 2 - 1e-9))
    seeds = wanted(sd)
    half = float(scipy.stats.t.ppf(0.975, seeds - 1)) * sd / math.sqrt(seeds)
    return Power(n, sd, sd_high, effect, seeds, wanted(sd_high), half)


# ---- loss = E + A C^-b

EXPONENTS = numpy.geomspace(0.01, 3.0, 160)


def _best_of(c, losses, exponents):
    """Least-squares E, A >= 0 of relative residuals for every exponent; returns the best exponent of each row with its fit.

    c: compute over its geometric mean, one a size. losses: rows x sizes. exponents: rows x candidates.
    """
    powers = c[None, None, :] ** -exponents[:, :, None]
    weights = (1.0 / losses**2)[:, None, :]
    y = losses[:, None, :]
    s, sx, sxx = weights.sum(2), (weights * powers).sum(2), (weights * powers**2).sum(2)
    sy, sxy = (weights * y).sum(2), (weights * powers * y).sum(2)
    slope = (s * sxy - sx * sy) / numpy.maximum(s * sxx - sx**2, 1e-300)
    floor = (sy - slope * sx) / s
    below = floor < 0
    slope, floor = numpy.where(below, sxy / sxx, slope), numpy.where(below, 0.0, floor)
    flat = slope < 0
    slope, floor = numpy.where(flat, 0.0, slope), numpy.where(flat, sy / s, floor)
    error = (weights * (y - floor[:, :, None] - slope[:, :, None] * powers) ** 2).sum(2)
    at = error.argmin(1)
    rows = numpy.arange(len(losses))
    return exponents[rows, at], floor[rows, at], slope[rows, at], error[rows, at]


def fit_power_law(compute, losses):
    """compute: sizes. losses: rows x sizes. E, A, b and the root mean square relative residual of every row.

    The loss is linear in E and A for a given b, so only b is searched: over a grid, then twice between the neighbours of
    the best value. A is the excess over E at the geometric mean of compute, where its uncertainty is smallest.
    """
    compute, losses = numpy.asarray(compute, float), numpy.atleast_2d(numpy.asarray(losses, float))
    c = compute / numpy.exp(numpy.log(compute).mean())
    candidates = numpy.broadcast_to(EXPONENTS, (len(losses), len(EXPONENTS)))
    width = EXPONENTS[1] / EXPONENTS[0]
    for _ in range(3):
        b, floor, slope, error = _best_of(c, losses, candidates)
        around = numpy.clip(b, EXPONENTS[0], EXPONENTS[-1])
        candidates = around[:, None] * width ** numpy.linspace(-1, 1, 41)[None, :]
        width **= 0.05
    return {"E": floor, "A": slope, "b": b, "residual": numpy.sqrt(error / len(compute))}


def scaling_law(compute, by_seed, draws=1000, random_seed=1):
    """by_seed: seed -> [loss of each size, or None]. Only seeds that have every size are used: means over
    different seeds would move the curve without widening its intervals.

    Returns None under four sizes (three unknowns) or without such a seed, else the fit of the means over seeds and, from two seeds on, 95%
    half-widths: the bootstrap's standard deviation over seeds (a seed is drawn with all of its sizes), widened by
    sqrt(n / (n - 1)), which the bootstrap of a mean lacks, and by Student's t for n - 1.
    """
    table = numpy.array([by_seed[s] for s in sorted(by_seed) if None not in by_seed[s]], float)
    if table.ndim != 2 or table.shape[1] < 4 or len(set(compute)) < 4:
        return None
    n = len(table)
    fit = {name: float(x[0]) for name, x in fit_power_law(compute, table.mean(0)[None, :]).items()}
    fit.update(
        seeds=n, sizes=table.shape[1], half={}, at_edge=fit["E"] == 0 or not EXPONENTS[1] < fit["b"] < EXPONENTS[-2]
    )
    if n >= 2:
        random = numpy.random.default_rng(random_seed)
        means = numpy.stack([table[random.integers(0, n, n)].mean(0) for _ in range(draws)])
        fits = fit_power_law(compute, means)
        widen = math.sqrt(n / (n - 1)) * float(scipy.stats.t.ppf(0.975, n - 1))
        fit["half"] = {name: widen * float(fits[name].std(ddof=1)) for name in ("E", "A", "b")}
        fit["widen"], fit["draws"] = widen, fits
    return fit


def compare_fits(entry, reference):
    """{name: (value, 95% half-width)} of a recipe's fit against the reference's, or None where seeds or sizes differ.

    Both use the same draws of seeds, so that variation common to both cancels. `compute`: the compute that the reference's
    curve needs for the recipe's loss at the largest size, as a share of that size's compute; None where the curve of a
    draw does not reach that loss.
    """
    mine, theirs = entry["fit"], reference["fit"]
    if (
        not mine
        or not theirs
        or "draws" not in mine
        or entry["units"] != reference["units"]
        or entry["compute"] != reference["compute"]
    ):
        return None

    def share(a, b):
        centre = numpy.exp(numpy.log(numpy.asarray(entry["compute"], float)).mean())
        loss = power_law_at(a, entry["compute"], entry["compute"][-1])
        with numpy.errstate(invalid="ignore", divide="ignore"):
            return ((loss - b["E"]) / b["A"]) ** (-1.0 / b["b"]) * centre / entry["compute"][-1]

    def both(difference):
        value, draws = float(difference(mine, theirs)), difference(mine["draws"], theirs["draws"])
        sound = math.isfinite(value) and numpy.isfinite(draws).all()
        return (value, mine["widen"] * float(numpy.std(draws, ddof=1))) if sound else None

    return {"E": both(lambda a, b: a["E"] - b["E"]), "b": both(lambda a, b: a["b"] - b["b"]), "compute": both(share)}


def power_law_at(fit, compute, c):
    """The fitted loss at c, a number or an array."""
    centre = numpy.exp(numpy.log(numpy.asarray(compute, float)).mean())
    return fit["E"] + fit["A"] * (numpy.asarray(c, float) / centre) ** -fit["b"]
