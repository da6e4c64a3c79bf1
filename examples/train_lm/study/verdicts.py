# ufp4 - verdicts of the second design: difference or equivalence, corrected for all orderings and both looks.
# SPDX-License-Identifier: Apache-2.0
"""docs/study_plan.md states these tests before the runs.

| test        | of one ordering with n paired seeds                                                                |
|-------------|----------------------------------------------------------------------------------------------------|
| difference  | two-sided paired t test of "the mean difference is 0"                                                |
| equivalence | TOST: two one-sided paired t tests of "the mean difference is at or beyond -MARGIN, +MARGIN"; its p is |
|             | the larger of the two                                                                              |

Holm's correction is for all orderings of a model, separately for the two tests, including orderings without data. There
are LOOKS looks at the data, so a test at one look has level LEVEL / LOOKS. The first look that decides an ordering
decides it.
"""

import dataclasses
import math

import scipy.stats

import stats

MARGIN = 0.15  # percent of the loss
LEVEL = 0.05
LOOKS = 2


@dataclasses.dataclass
class Verdict:
    """`difference`: an Interval of 100 (better - worse) / worse; negative agrees with the paper."""

    difference: stats.Interval
    p_equivalent: float  # of TOST; None with fewer than two seeds
    holm_difference: float = None
    holm_equivalent: float = None
    label: str = "undecided"  # confirmed, reversed, equivalent, undecided, no data


def p_equivalence(i, margin=MARGIN):
    """p of TOST for an Interval."""
    if i is None or i.sd is None:
        return None
    error = i.sd / math.sqrt(i.n)
    nearest = margin - abs(i.mean)  # to the nearer limit
    if error == 0:
        return 0.0 if nearest > 0 else 1.0
    return float(scipy.stats.t.sf(nearest / error, i.n - 1))


def decide(differences, level=LEVEL / LOOKS):
    """differences: for each ordering a list of paired differences in percent, or None. A Verdict for each.

    A difference that is significant and also inside the margin is a difference: the sign is known.
    """
    out = []
    for values in differences:
        i = stats.interval(values) if values is not None and len(values) else None
        out.append(Verdict(i, p_equivalence(i), label="undecided" if i else "no data"))
    for verdict, p, q in zip(
        out,
        stats.holm([v.difference.p if v.difference else None for v in out], len(out)),
        stats.holm([v.p_equivalent for v in out], len(out)),
    ):
        verdict.holm_difference, verdict.holm_equivalent = p, q
        if p is not None and p < level:
            verdict.label = "confirmed" if verdict.difference.mean < 0 else "reversed"
        elif q is not None and q < level:
            verdict.label = "equivalent"
    return out


def looks(differences_by_look):
    """The verdicts after each look in order: an ordering keeps the label of the first look that decides it."""
    decided, final = {}, []
    for differences in differences_by_look:
        final = decide(differences)
        for place, verdict in enumerate(final):
            if place in decided:
                final[place] = decided[place]
            elif verdict.label not in ("undecided", "no data"):
                decided[place] = verdict
    return final


def seeds_for_equivalence(sd, tests, power=0.8, level=LEVEL / LOOKS, margin=MARGIN):
    """Seeds with which TOST at level / tests (Holm's first step) finds a true difference of 0 with this power, by the
    normal approximation."""
    z = scipy.stats.norm.ppf(1 - level / tests) + scipy.stats.norm.ppf((1 + power) / 2)
    return math.ceil((z * sd / margin) ** 2)
