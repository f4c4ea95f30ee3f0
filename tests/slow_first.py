"""Where workers share the tests, slow ones come first: no worker ends with a long one while the others have none."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if getattr(config.option, "loadgroup", False):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)
