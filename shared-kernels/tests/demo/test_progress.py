from __future__ import annotations

import io
import time

from mps_pointops.demo.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_short_work_shows_nothing() -> None:
    for stream in (io.StringIO(), Terminal()):
        with Progress(stream).stage("work"):
            pass
        assert stream.getvalue() == ""


def test_lines_without_a_terminal() -> None:
    stream = io.StringIO()
    with Progress(stream, quiet=0.02, every=0.02).stage("work", total=4) as stage:
        stage.advance(3)
        time.sleep(0.2)
    lines = stream.getvalue().splitlines()
    assert lines
    assert set(lines) == {"work ... 75 % (0 s)"}


def test_one_line_on_a_terminal_that_is_wiped_at_the_end() -> None:
    stream = Terminal()
    with Progress(stream, quiet=0.02, every=0.02).stage("work"):
        time.sleep(0.2)
    text = stream.getvalue()
    assert "\n" not in text
    assert text.startswith("\rwork ... (0 s)\x1b[K")
    assert text.endswith("\r\x1b[K")


def test_the_painter_stops_when_work_fails() -> None:
    stream = io.StringIO()
    try:
        with Progress(stream, quiet=0.02, every=0.02).stage("work"):
            raise ValueError
    except ValueError:
        pass
    time.sleep(0.1)
    assert stream.getvalue() == ""
