"""What was said before, in the form that the backend which is asked takes."""
