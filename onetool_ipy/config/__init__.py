"""Configuration files -> frozen values: settings, secrets, paths, trust. Only this package reads
these files."""
