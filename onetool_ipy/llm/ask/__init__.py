"""`ask`: send a prompt to a model with tools, run the calls it asks for, and return the answer as a
value.

Three independent checks decide what a model may run: the tools that are offered, the check before
each call, and the executor's allow-list.
"""
