"""``make fuzz-guided``: the fuzz tests again, with inputs that atheris chooses by the code that they reach.

atheris changes the bytes from which hypothesis draws an input, so that the inputs keep their grammar. It ends its process
when it is done or has found something: each parser gets one.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
from collections.abc import Sequence

LONGEST_INPUT = 4096  # bytes that hypothesis draws from


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--inputs", type=int, default=100_000, help="of each parser")
    options.add_argument("--parser", help="this one, in this process")
    options.add_argument("names", nargs="*", help="of parsers; all without one")
    said = options.parse_args(arguments)
    if said.parser:
        return _guide(said.parser, said.inputs)
    from tests.fuzz.parsers import PARSERS

    failed = []
    for name in said.names or PARSERS:
        print(f"{name}: {said.inputs} inputs", flush=True)
        command = [sys.executable, "-m", "tests.fuzz.guided", "--parser", name, "--inputs", str(said.inputs)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            failed.append(name)
            print(done.stdout[-3000:], done.stderr[-6000:], flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "no parser failed")
    return int(bool(failed))


def _guide(name: str, inputs: int) -> int:
    import atheris

    logging.disable(logging.CRITICAL)

    with atheris.instrument_imports(include=["custom_metrics", "detector_plugin", "lm_eval_tasks"]):
        from tests.fuzz.parsers import PARSERS
        from tests.fuzz.test_parsers import fuzz_test

    test = fuzz_test(PARSERS[name], changes=0).hypothesis.fuzz_one_input  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        arguments = [f"-runs={inputs}", f"-max_len={LONGEST_INPUT}", f"-artifact_prefix={folder}/", "-verbosity=0"]
        atheris.Setup([sys.argv[0], *arguments], test)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
