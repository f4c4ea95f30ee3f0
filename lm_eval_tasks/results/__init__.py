"""Runs read back and made into tables and pages: comparison, report, leaderboard, agreement, reproduction; and scored."""
