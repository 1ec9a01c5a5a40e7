"""OpenAI's chat completions API, as served by OpenAI and compatible services: OpenRouter, Ollama,
LM Studio, vLLM, llama.cpp and more."""

from segue.agent.models.openai.client import OpenAIModel as OpenAIModel
