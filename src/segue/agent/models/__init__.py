"""Models: one small protocol (`base`), a module for each API, and the choice of a model.

`catalog` lists the providers and the servers on this machine, `routes` says how to reach each, and
`offers` asks them for their models. `choice` takes the one that the user named, or the first that
is usable.

`hosted` is what `openai`, `anthropic` and `gemini` have in common: a request, its retries and its
errors. `messages` prepares pictures and parts for them, and `plain` writes tool calls as text, for
a model that is too small for the tool API. `local` is the embedded model, and `scripted` a stand-in
for tests and for trying things out.
"""
