"""Programs over tools: a model or a person writes one program, a sandbox runs it, a person approves
its writes."""
