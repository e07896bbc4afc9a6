"""The screens in a notebook: the tool browser, the result viewer, the usage view."""
