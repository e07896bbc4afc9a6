"""The screens as they are served: one ES module, built from labextension/ui, and its style sheet. Nothing is Python."""
