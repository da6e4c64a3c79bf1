# ufp4 - the parts of a report, before they become HTML or Markdown.
# SPDX-License-Identifier: Apache-2.0
import dataclasses

CORE = ["bf16", "e2m1-baseline", "ufp4", "ufp4-rht-none", "e2m1-rht-all", "nvfp4"]
LABELS = {"confirmed": "✓ confirmed", "reversed": "✗ reversed", "unresolved": "? unresolved", "no data": "no data"}
RUN = "examples/train_lm/study/run.sh"


@dataclasses.dataclass
class Heading:
    text: str
    level: int = 2
    in_page: bool = True


@dataclasses.dataclass
class Text:
    text: str  # `code` between backticks
    note: bool = False
    in_page: bool = True


@dataclasses.dataclass
class Table:
    name: str
    header: list
    rows: list
    left: int = 1  # columns of text
    folded: bool = False


@dataclasses.dataclass
class Chart:
    """A plot and the table of its numbers. The Markdown page has only the table, and only with in_page."""

    svg: str
    table: Table
    in_page: bool = False


def star(name, exploratory):
    return name + (" *" if exploratory else "")
