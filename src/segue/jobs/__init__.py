"""Jobs: work that the agent does at a set time, without being spoken to.

A person or the agent makes a job (`values`): what to do, when (`schedule`), where to deliver, and
what its runs may do without asking. `service` is what the command line, the slash commands, the
page and the agent's tools have in common; `tools` are those of the agent, which ask the owner
before they change anything, and `reminders` hands them to a turn. `texts` says in words what a job
is and what became of it.

When a job is due, a gateway claims its run: the row in the store decides which one. If the job has
a condition (`conditions`), that is checked first, without a model. Then the agent takes a turn in
the job's own session, and its last message becomes a report for each place that the job delivers
to. A report that cannot be delivered there may go to another of the owner's home channels.

The SQL is in `queries`, one module each for jobs, runs and reports.
"""
