"""MTRAG: people's ratings of RAG answers in conversations, to rate detectors and judges by (Katsis et al. 2025)."""

QUALITIES = ("faithfulness", "appropriateness", "completeness", "naturalness")
"""What people rated, from 1 (no) to 4 (yes)."""

METRICS = {"auc_below_4": QUALITIES[0], "auc_below_3": QUALITIES[0], **{f"rho_{name}": name for name in QUALITIES}}
"""Metric to the quality whose ratings it is of."""
