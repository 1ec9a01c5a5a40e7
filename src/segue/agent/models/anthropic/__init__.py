"""Anthropic's Messages API, with streaming."""

from segue.agent.models.anthropic.client import AnthropicModel as AnthropicModel
