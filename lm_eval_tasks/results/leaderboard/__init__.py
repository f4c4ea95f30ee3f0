"""Many runs on one static page: who is better on which benchmark and language, and who cannot be told apart."""

from __future__ import annotations

from lm_eval_tasks.results.leaderboard.site import Site, write_leaderboard

__all__ = ["Site", "write_leaderboard"]
