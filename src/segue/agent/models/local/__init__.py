"""The embedded model: a small real one that needs no key and no account.

It is there to try things out, and to go on when nothing else is reachable: a demo, and no match for
a large model. Everything about it lives in one folder of the person's own:

    weights.py   which model it is, and whether its file is here
    pull.py      getting that file, from sources.py, resuming what was broken off
    runtime.py   the package that runs it, and getting that
    serve.py     the process that runs it; one for all of the person's programs, until it is idle
    server.py    finding that process, or starting it
    model.py     LocalModel, which the agent talks to

Nothing is imported here, because much of the program only asks whether the model is there.
"""
