"""Which source line an instruction belongs to: a reader of DWARF 4 line tables."""

from __future__ import annotations

import bisect
import struct

from ._kernels import place
from ._toolchain import ENTRY_POINTS, RUNTIME


class LineTable:
    """Addresses of a shared object and their lines in the Metal source.

    Args:
        data: Content of the section ``.debug_line``.
    """

    def __init__(self, data: bytes) -> None:
        self._rows: list[tuple[int, str | None]] = []
        at = 0
        while at + 4 <= len(data):
            (length,) = struct.unpack_from("<I", data, at)
            self._unit(data, at + 4, at + 4 + length)
            at += 4 + length
        self._rows.sort(key=lambda row: row[0])
        self._starts = [row[0] for row in self._rows]

    def place(self, address: int) -> str | None:
        """Returns file and line of the instruction at an address, or None when it has none."""
        at = bisect.bisect_right(self._starts, address) - 1
        return self._rows[at][1] if at >= 0 else None

    def _unit(self, data: bytes, at: int, end: int) -> None:
        version, header = struct.unpack_from("<HI", data, at)
        if version != 4:
            raise ValueError(f"line table of DWARF version {version}, expected 4")
        program = at + 6 + header
        minimum, _, _, base, span, opcodes = struct.unpack_from("<BBBbBB", data, at + 6)
        lengths = data[at + 12 : at + 11 + opcodes]
        files = _file_names(data, at + 11 + opcodes)
        address, file, line = 0, 1, 1
        reader = _Reader(data, program)

        def emit() -> None:
            # Line 0 is code that no line asked for: the row before it explains it best.
            if line:
                name = files[file - 1]
                self._rows.append((address, None if name is None else place(name, line)))

        while reader.at < end:
            code = reader.byte()
            if code >= opcodes:
                address += (code - opcodes) // span * minimum
                line += base + (code - opcodes) % span
                emit()
            elif code == 0:
                size = reader.unsigned()
                after = reader.at + size
                extended = reader.byte()
                if extended == 1:  # end of a sequence
                    self._rows.append((address, None))
                    address, file, line = 0, 1, 1
                elif extended == 2:
                    (address,) = struct.unpack_from("<Q", data, reader.at)
                reader.at = after
            elif code == 1:
                emit()
            elif code == 2:
                address += reader.unsigned() * minimum
            elif code == 3:
                line += reader.signed()
            elif code == 4:
                file = reader.unsigned()
            elif code == 8:
                address += (255 - opcodes) // span * minimum
            elif code == 9:
                (step,) = struct.unpack_from("<H", data, reader.at)
                reader.at += 2
                address += step
            else:
                for _ in range(lengths[code - 1]):
                    reader.unsigned()


def _file_names(data: bytes, at: int) -> list[str | None]:
    """Returns the files of the Metal text by their number; None for the runtime's own."""
    folders = [""]
    while data[at]:
        end = data.index(b"\0", at)
        folders.append(data[at:end].decode())
        at = end + 1
    reader = _Reader(data, at + 1)
    names: list[str | None] = []
    while data[reader.at]:
        end = data.index(b"\0", reader.at)
        name = data[reader.at : end].decode()
        reader.at = end + 1
        folder = folders[reader.unsigned()]
        path = f"{folder}/{name}" if folder else name
        own = folder == str(RUNTIME) or name == ENTRY_POINTS
        names.append(None if own else path)
        for _ in range(2):
            reader.unsigned()
    return names


class _Reader:
    """A position in bytes that reads DWARF's variable-length numbers."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if byte & 0x40 else value
