"""The languages that data is made in: mFAVA's, and English, from which the paper translates."""

from __future__ import annotations

from lm_eval_tasks.mfava.languages import LANGUAGES as MFAVA

__all__ = ["LANGUAGES"]

LANGUAGES = {"en": "English", **{code: language.name for code, language in MFAVA.items()}}
"""Code to English name."""
