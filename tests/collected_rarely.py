"""Python's garbage collector looks rarely, and never at what collection left behind: that took a tenth of the tests' time.

Modules and test items are millions of objects that live until the end. Each full look at them finds nothing.
"""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
