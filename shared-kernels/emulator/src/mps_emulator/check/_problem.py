"""What the checker reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Problem:
    """One finding in a shader.

    Attributes:
        severity: ``"error"``: Metal 3.1 or ``torch.mps.compile_shader`` would refuse or misread the
            text. ``"warning"``: legal, but most likely not meant.
        line: Line in ``file``, from 1.
        column: Column in that line, from 1.
        message: What is wrong and what to do.
        rule: Short name of the rule, as printed in brackets.
        file: Name given to ``check_source``, or the one of the last ``#line`` directive.
    """

    severity: Severity
    line: int
    column: int
    message: str
    rule: str
    file: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message} [{self.rule}]"
        )
