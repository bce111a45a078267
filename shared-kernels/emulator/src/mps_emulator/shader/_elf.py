"""Reads what the executor needs from a shared object: sections and symbols (ELF, 64-bit)."""

from __future__ import annotations

import struct
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """One section: its address and content."""

    name: str
    address: int
    size: int
    data: bytes


@dataclass(frozen=True)
class Symbol:
    """One symbol of the full symbol table."""

    name: str
    address: int
    size: int


class SharedObject:
    """The parsed file.

    Args:
        data: Content of a little-endian 64-bit ELF file.
    """

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a 64-bit little-endian ELF file")
        (table,) = struct.unpack_from("<Q", data, 40)
        width, count, names = struct.unpack_from("<HHH", data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * width) for i in range(count)]
        strings = headers[names][4]
        self.sections: dict[str, Section] = {}
        links: dict[str, int] = {}
        for name, kind, _, address, offset, size, link, *_ in headers:
            text = _string(data, strings + name)
            body = b"" if kind == 8 else data[offset : offset + size]  # 8: no bits in the file
            self.sections[text] = Section(text, address, size, body)
            links[text] = link
        self.end = max((h[3] + h[5] for h in headers if h[2] & 2), default=0)  # 2: in memory
        self.symbols: dict[str, Symbol] = {}
        table_data = self.sections.get(".symtab")
        if table_data is not None:
            base = headers[links[".symtab"]][4]
            for at in range(0, len(table_data.data), 24):
                name, _, _, section, value, size = struct.unpack_from(
                    "<IBBHQQ", table_data.data, at
                )
                if name and section:
                    text = _string(data, base + name)
                    self.symbols[text] = Symbol(text, value, size)


def _string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
