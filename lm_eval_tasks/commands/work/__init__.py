"""What the commands do, apart from how they are called: functions of paths and values that print nothing."""
