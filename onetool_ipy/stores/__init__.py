"""What is kept on disk: `files` (whole writes, appends, locks), `results`, `calls` (the one log),
`topics`."""
