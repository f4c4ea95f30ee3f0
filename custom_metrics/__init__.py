"""Scores of answers: abstention, relevance labels, grounding metrics, intervals, aggregations, filters.

This package reads its own tables only and opens no socket. It imports neither `lm_eval_tasks` nor `detector_plugin`.
"""
