"""Transcript in, events out. The agent keeps no session: whoever runs a turn brings everything.

Read `models/base` (what a model is), `loop` (one turn), `tools` (what it can do), `approvals`
(what it may do), `prompt` and `compaction` (what it is told).
"""
