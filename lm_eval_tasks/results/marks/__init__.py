"""Marks that people set in some answers of a run, or ratings that they gave: which answers are drawn, the page that they
are marked on, and the files that come back.
"""
