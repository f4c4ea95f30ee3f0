"""The user's side: errors that the user can put right, options by name, printable text, secrets, installed plugins."""
