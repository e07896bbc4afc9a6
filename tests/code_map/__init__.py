"""The figures of the source tree, as `make map` prints them: how large it is, and how many modules
a call needs."""
