"""``make fuzz-guided``: inputs that atheris chooses by the code that they reach, for all parsers together.

atheris changes the bytes from which hypothesis draws a parser and its input, so that the inputs keep their grammar. It ends
at the first input that fails. Options are libFuzzer's: ``python -m tests.fuzz.guided -runs=100000``.
"""

from __future__ import annotations

import logging
import sys
import tempfile

import atheris
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

with atheris.instrument_imports(include=["custom_metrics", "detector_plugin", "lm_eval_tasks"]):
    from tests.fuzz.parsers import PARSERS
    from tests.fuzz.test_parsers import feed


@settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def fuzz(data: st.DataObject) -> None:
    """One input of one parser."""
    parser = PARSERS[data.draw(st.sampled_from(sorted(PARSERS)))]
    feed(parser, data.draw(parser.inputs))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    # Long inputs from the first: an input of few bytes draws nothing.
    defaults = ["-max_len=4096", "-len_control=0", f"-artifact_prefix={tempfile.gettempdir()}/"]
    atheris.Setup([sys.argv[0], *defaults, *sys.argv[1:]], fuzz.hypothesis.fuzz_one_input)  # type: ignore[attr-defined]
    atheris.Fuzz()
