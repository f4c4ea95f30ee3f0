"""Tests of one ``xdist_group`` run in one worker: with pytest from 9.2 on, which pytest-xdist 3.8 does not reach.

xdist writes the group behind the node's id, in ``_nodeid``. pytest 9.2 keeps the id in ``_id``: there a group's tests go to
any worker, and each worker makes what they share. This hook gives the id what xdist wrote; elsewhere it does nothing.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        grouped = getattr(item, "_nodeid", item.nodeid)
        if grouped != item.nodeid:
            from _pytest.nodeid import coerce_node_id

            item._id = coerce_node_id(grouped)
            assert item.nodeid == grouped
