"""How answers are scored: abstention, relevance labels, grounding metrics, intervals, aggregations, filters.

Imports neither `lm_eval_tasks` nor `detector_plugin`, reads no file but its own tables, and opens no socket.
"""
