"""Doors to other tools: each module needs the package of its tool, which the base install does not bring."""
