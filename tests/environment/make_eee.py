"""The environment of ``every-eval-ever``, which needs Python 3.12: ``python -m tests.environment.make_eee FOLDER``.

Says why where there is none.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.environment.interpreters import interpreters

NEEDS = (3, 12)
PACKAGE = "every-eval-ever==0.3.0"


def main(folder: Path) -> None:
    if (folder / ".done").exists():
        return
    python = next((python for version, python in interpreters().items() if version >= NEEDS), None)
    if python is None:
        print(f"skipped: {PACKAGE} needs Python {'.'.join(map(str, NEEDS))}, which is not on this machine")
        return
    subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
    subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", PACKAGE], check=True)
    (folder / ".done").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
