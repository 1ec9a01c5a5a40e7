"""What the agent can do on the machine. `base` says what a tool is; each other module has a few."""
