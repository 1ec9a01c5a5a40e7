"""The embedded model: a small language model that needs no key and no account.

It is a demo, for trying things out and for continuing when nothing else is reachable, and no match
for a large model. All its data is in one private folder. The modules:

    runtime.py   what it needs: the model's file, and the package that runs it
    pull.py      downloads that file, resuming interrupted downloads
    serve.py     the server process, shared by all of the user's programs; stops when idle
    model.py     LocalModel, the agent's interface, which finds or starts that process

This module imports nothing, because many callers only check whether the model is present.
"""
