"""Distributions installed into a folder, as an installer does it."""

import base64
import hashlib
import json
import shutil
import sys

import pytest


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(exist_ok=True)

    @property
    def path(self):
        return [str(self.folder)]

    @property
    def path_with_python(self):
        """With the standard library, for a process of its own."""
        return [
            *self.path,
            *(
                p
                for p in sys.path
                if p.endswith(("lib-dynload", ".zip")) or "site-packages" not in p
            ),
        ]

    def install(self, name, version, files, requires=(), editable=None):
        """Write files and their RECORD; the files of others are overwritten without a word."""
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        lines = [f"Requires-Dist: {text}\n" for text in requires]
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{''.join(lines)}"
        files = {**files, f"{info}/METADATA": metadata}
        if editable is not None:
            told = {"url": editable.as_uri(), "dir_info": {"editable": True}}
            files[f"{info}/direct_url.json"] = json.dumps(told)
        record = [f"{info}/RECORD,,"]
        for file, text in files.items():
            target = self.folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            record.append(f"{file},sha256={_digest(text.encode())},{len(text)}")
        (self.folder / info / "RECORD").write_text("\n".join(record) + "\n")

    def uninstall(self, name):
        """Remove what RECORD lists, whoever wrote it, and folders that are empty then."""
        (info,) = self.folder.glob(f"{name.replace('-', '_')}-*.dist-info")
        for line in (info / "RECORD").read_text().splitlines():
            (self.folder / line.split(",")[0]).unlink(missing_ok=True)
        shutil.rmtree(info, ignore_errors=True)
        for folder in sorted(self.folder.rglob("*"), reverse=True):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path / "site")


@pytest.fixture
def other_site(tmp_path):
    return Site(tmp_path / "other")
