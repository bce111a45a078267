"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass

OK, NOTE, PROBLEM = "ok", "note", "problem"


@dataclass(frozen=True)
class Finding:
    """What was found, and what to do about it.

    Attributes:
        level: 'ok'; 'note', good to know; 'problem', which makes the exit code 1.
        area: What was looked at: 'install', 'torch', 'device', 'kernels', 'operators' or 'pyg'.
        subject: Which of them: an import name, a kernel file, an operator.
        what: What was found, in a sentence.
        cure: Command or change that mends it; empty where nothing has to be done.
    """

    level: str
    area: str
    subject: str
    what: str
    cure: str = ""
