"""The embedded model: a small language model that needs no key and no account.

It is a demo, for trying things out and for continuing when nothing else is reachable, and no match
for a large model. All its data is in one private folder. The modules:

    weights.py   the model's file: what it is and whether it is present
    pull.py      downloads that file, resuming interrupted downloads
    runtime.py   finds the package that runs the model, and installs it with pip.py
    serve.py     the server process, shared by all of the user's programs; stops when idle
    server.py    finds or starts that process
    model.py     LocalModel, the agent's interface

This module imports nothing, because many callers only check whether the model is present.
"""
