"""What README and docs say is what the code does."""
