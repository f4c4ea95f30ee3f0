"""What meets the user: errors that can be put right, options by name, foreign text made printable, installed plugins."""
