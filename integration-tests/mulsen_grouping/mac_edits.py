"""Makes the lines of a MulSen-AD checkout that are tied to CUDA run on an Apple GPU too."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """One replacement in a file.

    Attributes:
        file: Path in the checkout.
        old: Pattern of what is there.
        new: What takes its place.
        done: Pattern of what is there afterwards, and never before.
        why: For the reader.
    """

    file: str
    old: str
    new: str
    done: str
    why: str


DEVICE = '"cuda" if torch.cuda.is_available() else "cpu"'
EDITS = (
    Edit(
        "feature_extractors/features.py",
        re.escape(f"self.device = {DEVICE}"),
        'self.device = "cuda" if torch.cuda.is_available() else '
        '"mps" if torch.backends.mps.is_available() else "cpu"',
        r"torch\.backends\.mps\.is_available",
        "the device: mps where it is",
    ),
    Edit(
        "dataset.py",
        r"(?m)^(\s*)pointcloud = pointcloud\.T[ \t]*$",
        r"\1pointcloud = torch.from_numpy(pointcloud.T).float()",
        r"pointcloud = torch\.from_numpy\(pointcloud\.T\)\.float\(\)",
        "float32 before the device: there is no float64 on it",
    ),
    Edit(
        "models/models.py",
        r"torch\.load\(bert_ckpt_path\)",
        'torch.load(bert_ckpt_path, map_location="cpu")',
        r'torch\.load\(bert_ckpt_path, map_location="cpu"\)',
        "checkpoints that were saved from CUDA",
    ),
    Edit(
        "models/models.py",
        r'pretrained=False,\s*checkpoint_path="/[^"]*"',
        "pretrained=True",
        r"rgb_backbone_name, pretrained=True",
        "the image weights: fetched by timm, not read from one home folder",
    ),
)


def apply(code: Path) -> list[str]:
    """Edits the files in place; gives a line an edit. Raises if a line is not as expected."""
    texts = {edit.file: (code / edit.file).read_text(encoding="utf-8") for edit in EDITS}
    lines = []
    for edit in EDITS:
        texts[edit.file], count = re.subn(edit.old, edit.new, texts[edit.file])
        if not re.search(edit.done, texts[edit.file]):
            raise SystemExit(f"{edit.file}: found nothing to edit for: {edit.why}")
        state = f"{count} edited" if count else "done before"
        lines.append(f"{edit.file}: {edit.why} ({state})")
    if "import torch\n" not in texts["dataset.py"]:
        texts["dataset.py"] = "import torch\n" + texts["dataset.py"]
    for name, text in texts.items():  # only when all of them fit
        (code / name).write_text(text, encoding="utf-8")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mulsen-code", type=Path, required=True, help="edited in place")
    chosen = parser.parse_args(arguments)
    missing = [edit.file for edit in EDITS if not (chosen.mulsen_code / edit.file).is_file()]
    if missing:
        sys.exit(f"--mulsen-code: there is no {missing[0]} in {chosen.mulsen_code}")
    print("\n".join(apply(chosen.mulsen_code)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
