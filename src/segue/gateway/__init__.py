"""The gateway: the process that hosts the adapters, answers in chats and carries out handoffs."""
