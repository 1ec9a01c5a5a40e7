"""Anthropic's Messages API, streaming."""

from segue.agent.models.anthropic.client import AnthropicModel as AnthropicModel
