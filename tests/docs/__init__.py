"""What README says is what the code does."""
