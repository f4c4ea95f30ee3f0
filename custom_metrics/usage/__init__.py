"""The user's side: errors that the user can put right, options by name, foreign text made printable, installed plugins."""
