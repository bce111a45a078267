"""What was found, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mps_pointops.doctor.finding import PROBLEM, Finding

# raised when a key changes its meaning or goes; new keys may come at any time
SCHEMA = 1
_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}


def as_json(findings: Sequence[Finding], facts: dict[str, Any]) -> str:
    """One object; `README.md` beside this file has its keys."""
    whole = {
        "schema": SCHEMA,
        "ok": not has_problem(findings),
        "findings": [asdict(finding) for finding in findings],
        **facts,
    }
    return json.dumps(whole, indent=2, default=str)


def as_text(findings: Sequence[Finding]) -> str:
    """A line a finding, with its cure below it, and a summary."""
    lines = []
    for finding in findings:
        lines.append(f"{_MARKS[finding.level]} {finding.area}: {finding.subject}: {finding.what}")
        lines += [f"            {line}" for line in finding.cure.splitlines()]
    count = sum(finding.level == PROBLEM for finding in findings)
    if count:
        lines.append(f"{count} problem{'s' if count > 1 else ''}; what to do stands below each")
    else:
        lines.append("nothing is wrong")
    return "\n".join(lines)


def has_problem(findings: Sequence[Finding]) -> bool:
    """Whether the exit code is 1."""
    return any(finding.level == PROBLEM for finding in findings)
