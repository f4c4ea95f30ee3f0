"""What only developers of this project run."""
