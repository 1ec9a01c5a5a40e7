"""Google's Gemini API: generateContent, with streaming."""

from segue.agent.models.gemini.client import GeminiModel as GeminiModel
