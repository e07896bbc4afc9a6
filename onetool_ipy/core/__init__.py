"""What a tool, a call and a result are, and how a call runs.

No file, no network, no screen: what core needs from the rooms above it (a store, a source of tools) it knows
only as a Protocol in `model`.
"""
