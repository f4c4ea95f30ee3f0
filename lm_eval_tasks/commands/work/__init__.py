"""The work of the commands: functions of paths and values that print nothing. How they are called is in ``commands``."""
