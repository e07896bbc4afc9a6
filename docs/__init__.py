"""What is written for users, and what writes it."""
