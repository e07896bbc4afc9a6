"""What a tool, a call and a result are, and how a call runs. No file, no network, no screen."""
