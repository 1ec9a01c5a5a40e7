"""Jobs: work that the agent does at a set time, without being spoken to.

A person or the agent makes a job: what to do, when, where to deliver, and what its runs may do
without asking. `service` is what the command line, the slash commands and the agent's tools have in
common; `tools` are those of the agent, which ask the owner before they change anything, and
`reminders` hands them to a turn.

When a job is due, a gateway claims its run. If the job has a condition (`conditions`), that is
looked at first, without a model. Then the agent takes a turn in the job's own session, and its last
message becomes a report for each place that the job delivers to.
"""
