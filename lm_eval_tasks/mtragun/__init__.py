"""MTRAG-UN: conversations whose last turn may have no answer, part of one, or several meanings (Rosenthal et al. 2026)."""
