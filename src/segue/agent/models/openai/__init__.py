"""OpenAI's chat completions, as OpenAI and everybody compatible with it serve them: OpenRouter,
Ollama, LM Studio, vLLM, llama.cpp and more."""

from segue.agent.models.openai.client import OpenAIModel as OpenAIModel
