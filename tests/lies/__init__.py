"""What backends send instead of what they should, as data: each row with the end it must have."""
