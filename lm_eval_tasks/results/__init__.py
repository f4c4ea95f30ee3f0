"""What is done with finished runs: comparison, report, leaderboard, agreement, reproduction and scoring."""
