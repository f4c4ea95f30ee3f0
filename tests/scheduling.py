"""Which worker runs a test, and when: slow ones first, and those of one ``xdist_group`` in one worker."""

from __future__ import annotations

import gc

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not getattr(config.option, "loadgroup", False):
        return
    # No worker ends with a long test while the others have none.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    # xdist 3.8 writes the group behind the node's id, in `_nodeid`. pytest keeps the id in `_id` from 9.2 on: there a
    # group's tests would go to any worker, and each worker would make what they share.
    for item in items:
        grouped = getattr(item, "_nodeid", item.nodeid)
        if grouped != item.nodeid:
            from _pytest.nodeid import coerce_node_id

            item._id = coerce_node_id(grouped)


def pytest_collection_finish() -> None:
    """Keep the garbage collector off what collection left behind: a tenth of the tests' time went into looking at it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
