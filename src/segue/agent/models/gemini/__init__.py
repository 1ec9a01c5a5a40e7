"""Google's Gemini API: generateContent, streaming."""

from segue.agent.models.gemini.client import GeminiModel as GeminiModel
