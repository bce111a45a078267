"""A light progress line for work that takes long; nothing at all for short work."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Stage:
    """One piece of work.

    Attributes:
        label: What is going on.
        total: Steps of the work; 0: unknown, only elapsed time is shown.
        done: Steps that are finished.
    """

    def __init__(self, label: str, total: int) -> None:
        self.label = label
        self.total = total
        self.done = 0

    def advance(self, steps: int = 1) -> None:
        """Count finished steps."""
        self.done += steps

    def text(self, elapsed: float) -> str:
        """The line to show after that many seconds."""
        share = f" {100 * self.done // self.total} %" if self.total else ""
        return f"{self.label} ...{share} ({elapsed:.0f} s)"


class Progress:
    """Shows the current stage on a stream: one line painted over on a terminal, else a few lines.

    A thread of its own does it, because a stage may be one long call.
    """

    def __init__(self, stream: TextIO, quiet: float | None = None, every: float | None = None):
        """Watch over stages.

        Args:
            stream: Where to write.
            quiet: Seconds of a stage before anything is shown; None: 1 on a terminal, else 10.
            every: Seconds between updates; None: 0.5 on a terminal, else 10.
        """
        self._stream = stream
        self._terminal = stream.isatty()
        self._quiet = quiet if quiet is not None else (1.0 if self._terminal else 10.0)
        self._every = every if every is not None else (0.5 if self._terminal else 10.0)

    @contextmanager
    def stage(self, label: str, total: int = 0) -> Iterator[Stage]:
        """Work that is shown while the `with` block runs."""
        stage = Stage(label, total)
        over = threading.Event()
        painter = threading.Thread(target=self._paint, args=(stage, over), daemon=True)
        painter.start()
        try:
            yield stage
        finally:
            over.set()
            painter.join()

    def _paint(self, stage: Stage, over: threading.Event) -> None:
        begin = time.monotonic()
        shown = False
        pause = self._quiet
        while not over.wait(pause):
            pause = self._every
            shown = True
            text = stage.text(time.monotonic() - begin)
            self._stream.write(f"\r{text}\x1b[K" if self._terminal else f"{text}\n")
            self._stream.flush()
        if shown and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
