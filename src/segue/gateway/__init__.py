"""The gateway: the process that hosts the adapters, answers in chats and carries out handoffs.

`service` is the process: one group of tasks, for the platforms that this gateway serves. `context`
is what its parts share. What comes in and goes out:

- `connections` makes the adapters and keeps each connected. What one receives goes to `inbound`,
  which lets it pass the gate (`access`) and records it once as a pending message (`messages`).
- `dispatch` queues it behind the others of its chat. It is a command (`chat_commands`) or is
  answered by a turn (`turns`), for which `content` is what the model reads. `streaming` shows the
  answer as it is written.
- `outbound` delivers what the outbox holds, in order and at the platform's rate. `writer` writes it
  in the chat, with `reactions` where there are no buttons. `texts` are the gateway's own words.

Beside them, `expiry` ends stale sessions, and `janitor` reports what did not arrive and prunes old
entries. `containment` keeps one bad item from stopping the rest. `watchdog` watches the process,
which writes a `log_file` and can run in the `background`.
"""
