"""Approvals: what the agent may do without asking, and how it asks for the rest.

Before a tool runs, `rules` decides: reading is free, writing, running and sending ask first, and
the owner's settings can list commands that need no question. What must be asked becomes a question
(`questions`) in the chat where the turn runs, with buttons where the platform has them. An answer
allows one exact call: it is bound to the call's fingerprint, which covers its arguments, the
working directory and the file that it would change. It may only be given by the session's owner,
at the place where the question was asked, and only after the whole call was shown there.

A question is stored before it is shown, and its answer before the call starts. So it survives a
restart, and a call is never started twice. It becomes void when the conversation moves on without
it: the session goes to another place, or its owner says something else.

The agent stands above this package and asks through the callable `Approve`; the terminal and the
page ask in ways of their own. What everyone shares (the policy of the settings, the answers, the
description of a call) is in `segue.core.approval`.
"""
