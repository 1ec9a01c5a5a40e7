"""Google's Gemini API: generateContent, streaming."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast
from urllib.parse import quote

import msgspec
from msgspec import Struct

from segue.agent.models.base import (
    Call,
    End,
    Piece,
    Prompt,
    Stop,
    Text,
    ToolSpec,
    as_user,
    by_agent,
)
from segue.agent.models.http import Client, Endpoint, Patience, Refusal, encoded
from segue.agent.models.pictures import shown
from segue.agent.models.refused import IMAGE, carried, conceding
from segue.core.errors import (
    BadKey,
    ContextTooLong,
    ModelBusy,
    ModelCutOff,
    ModelError,
    ModelRefused,
    NoCredit,
    UnknownModel,
)
from segue.core.images import KINDS
from segue.core.session import Usage
from segue.core.transcript import Image, Message, Role, ToolCall

PROVIDER = "Gemini"
BASE_URL = "https://generativelanguage.googleapis.com/v1beta"

OPENING = "(The beginning of this conversation is not shown.)"
"""Said for the person when the window begins with the model: a call must follow a user's word."""
ONWARD = "(Go on.)"
"""Said for the person when the window ends with the model: the last word is a user's."""
UNSIGNED = "skip_thought_signature_validator"
"""What the documentation gives for calls that another model made, which nobody signed."""

_EXTRAS = "gemini"
_SIGNATURE = "signature"
_KINDS = KINDS - {"image/gif"}
"""What the documentation names, apart from HEIC and HEIF, which nobody else takes."""
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_.-]")
_NAME_LIMIT = 64
_STOPS = {
    "STOP": Stop.DONE,
    "MAX_TOKENS": Stop.LENGTH,
    "SAFETY": Stop.REFUSED,
    "RECITATION": Stop.REFUSED,
    "LANGUAGE": Stop.REFUSED,
    "BLOCKLIST": Stop.REFUSED,
    "PROHIBITED_CONTENT": Stop.REFUSED,
    "SPII": Stop.REFUSED,
}
_NOTHING_LEFT = re.compile(r"\bcredits?\b|prepay|limit: 0\b")
_WAIT = re.compile(r"retry in|retrydelay")

_Json = dict[str, Any]


class GeminiModel:
    """A model of Google's, reached with a key of AI Studio."""

    def __init__(
        self,
        *,
        name: str,
        model: str,
        key: str,
        setting: str,
        context: int,
        base_url: str = BASE_URL,
        small: bool = False,
        images: bool = True,
        patience: Patience | None = None,
    ) -> None:
        """`setting` is where the person put the key: a bad one is reported with it."""
        self.name = name
        self._model = model.removeprefix("models/")
        self._path = f"/models/{quote(self._model, safe='')}:streamGenerateContent?alt=sse"
        self._setting = setting
        self.context = context
        self.small = small
        self.images = images
        self._client = Client(
            Endpoint(
                provider=PROVIDER,
                base_url=base_url,
                headers={"x-goog-api-key": key},
                explain=self._explain,
                patience=patience or Patience(),
            )
        )

    async def close(self) -> None:
        await self._client.close()

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """The answer, piece by piece, ending with End; or a ModelError.

        Signatures that came with earlier answers go back as they came. A signature is worth nothing
        to another model or account; when it is refused, the same is asked once more without any.
        So it is with pictures.
        """

        def ask(included: frozenset[str]) -> AsyncGenerator[Piece]:
            kinds = _KINDS if IMAGE in included else ()
            signed = _SIGNATURE in included
            return self._ask(request(self._model, prompt, signed=signed, kinds=kinds))

        included = carried(prompt, images=self.images, extras={_EXTRAS: _SIGNATURE})
        async with aclosing(conceding(ask, included)) as pieces:
            async for piece in pieces:
                yield piece

    async def _ask(self, asked: _Json) -> AsyncGenerator[Piece]:
        answer = _Answer()
        async with aclosing(self._client.events(self._path, encoded(asked))) as events:
            async for event in events:
                news = _read(event.data)
                if news.error is not None:
                    raise self._told(news.error.code, news.error, event.data)
                for text in answer.take(news):
                    yield Text(text)
        for piece in answer.rest():
            yield piece

    def _explain(self, refusal: Refusal) -> ModelError | None:
        try:
            told = _REFUSAL.decode(refusal.body)
        except msgspec.MsgspecError:
            return ContextTooLong(model=self._model) if refusal.status == 413 else None
        error = (told[0] if isinstance(told, list) else told).error
        return self._told(refusal.status, error, refusal.body)

    def _told(self, status: int, error: _Error, body: str) -> ModelError:
        """What an error of the API means to the person; `body` is all of it, with its details."""
        reason = error.message.strip().rstrip(".") or error.status
        said, everything = reason.lower(), body.lower()
        match status:
            case 401 | 403:
                return BadKey(provider=PROVIDER, setting=self._setting)
            case 404:
                return UnknownModel(provider=PROVIDER, model=self._model)
            case 413:
                return ContextTooLong(model=self._model)
            case 429:
                # Every exceeded quota speaks of billing; those that pass by say when to try again.
                waits = _WAIT.search(everything)
                if _NOTHING_LEFT.search(said) or ("billing" in said and not waits):
                    return NoCredit(provider=PROVIDER)
                return ModelBusy(provider=PROVIDER, reason=reason)
            case _ if status < 500:
                if "api_key_invalid" in everything or "api key" in said:
                    return BadKey(provider=PROVIDER, setting=self._setting)
                if "token count" in said and "exceeds" in said:
                    return ContextTooLong(model=self._model)
                if error.status == "FAILED_PRECONDITION" and "billing" in said:
                    return NoCredit(provider=PROVIDER)
                return ModelRefused(provider=PROVIDER, reason=reason)
            case _:
                return ModelBusy(provider=PROVIDER, reason=reason)


# What we send


def request(model: str, prompt: Prompt, *, signed: bool, kinds: Collection[str] = _KINDS) -> _Json:
    """The body of one request, with or without the signatures of earlier answers, and with
    pictures of these kinds."""
    told = shown(prompt.messages, kinds)
    body: _Json = {
        "contents": _contents(told, signed=signed, stand_in=_wants_signatures(model)),
        "generationConfig": {"maxOutputTokens": prompt.max_tokens},
    }
    if prompt.system.strip():
        body["systemInstruction"] = {"parts": [{"text": prompt.system}]}
    if prompt.tools:
        body["tools"] = [{"functionDeclarations": [_tool(spec) for spec in prompt.tools]}]
    return body


def _wants_signatures(model: str) -> bool:
    """From Gemini 3 on, every step's first call must be signed."""
    return not model.startswith(("gemini-1", "gemini-2"))


def _contents(
    told: Iterable[tuple[Message, Sequence[Image | str]]], *, signed: bool, stand_in: bool
) -> list[_Json]:
    """Users and the model by turns, from a user to a user."""
    turns: list[_Json] = []
    waiting: list[_Sent] = []

    def say(role: str, parts: list[_Json]) -> None:
        if parts and turns and turns[-1]["role"] == role:
            turns[-1]["parts"].extend(parts)
        elif parts:
            turns.append({"role": role, "parts": parts})

    for message, pictures in told:
        if message.role is Role.TOOL:
            say("user", [_response(message, waiting)])
        elif by_agent(message):
            if not turns:
                say("user", _text(OPENING))
            waiting, parts = _said(message, signed=signed)
            if stand_in and waiting and "thoughtSignature" not in waiting[0].part:
                waiting[0].part["thoughtSignature"] = UNSIGNED
            say("model", parts)
        else:
            say("user", [*map(_picture, pictures), *_text(as_user(message))])
    if not turns or turns[-1]["role"] == "model":
        say("user", _text(ONWARD if turns else OPENING))
    return turns


def _text(text: str) -> list[_Json]:
    """One part, or none: empty ones are refused."""
    return [{"text": text}] if text.strip() else []


def _picture(picture: Image | str) -> _Json:
    if isinstance(picture, str):
        return {"text": picture}
    return {"inlineData": {"mimeType": picture.media_type, "data": picture.data}}


class _Sent:
    """A call as it is sent, while it waits for its result."""

    def __init__(self, call: ToolCall) -> None:
        self.id = call.id
        self.call: _Json = {"name": _tool_name(call.name), "args": arguments(call)}
        self.part: _Json = {"functionCall": self.call}


def _said(message: Message, *, signed: bool) -> tuple[list[_Sent], list[_Json]]:
    """What the model said: its calls, and all of its parts."""
    calls = [_Sent(call) for call in message.tool_calls]
    if signed and message.extras and (layout := message.extras.get(_EXTRAS)):
        if parts := _laid_out(layout, message.content, calls):
            return calls, parts
        calls = [_Sent(call) for call in message.tool_calls]
    return calls, _text(message.content) + [sent.part for sent in calls]


def _laid_out(layout: Any, text: str, calls: list[_Sent]) -> list[_Json] | None:
    """The parts as they came, signatures and ids included (see _Answer.layout); None when the
    message is no longer what the layout describes."""
    parts: list[_Json] = []
    left, at = calls, 0
    for item in cast("list[Any]", layout) if isinstance(layout, list) else ():
        match item:
            case {"text": int(length), **more}:
                piece = _text(text[at : at + length])
                at += length
            case {"call": str(call), **more} if left and left[0].id == call:
                sent, *left = left
                piece = [sent.part]
                if more.get("own"):
                    sent.call["id"] = call
            case _:
                return None
        if piece and "signature" in more:
            piece[0]["thoughtSignature"] = more["signature"]
        parts += piece
    return parts if at == len(text) and not left else None


def _response(message: Message, waiting: list[_Sent]) -> _Json:
    """A result, under the name (and the id, if it has one here) of the call that it answers."""
    answered: _Json = {"name": _tool_name(message.tool_name or "")}
    for i, sent in enumerate(waiting):
        if sent.id == message.tool_call_id:
            answered = {key: sent.call[key] for key in ("name", "id") if key in sent.call}
            del waiting[i]
            break
    return {"functionResponse": {**answered, "response": {"output": message.content}}}


def arguments(call: ToolCall) -> _Json:
    """The arguments as an object. What is none, as small models write it, goes under one name."""
    try:
        return _OBJECT.decode(call.arguments or "{}")
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return {"arguments": call.arguments}


def _tool_name(name: str) -> str:
    """A name that is accepted: other providers' models may have made one up."""
    clean = _NOT_IN_NAME.sub("_", name)
    return (clean if clean[:1].isalpha() or clean[:1] == "_" else f"_{clean}")[:_NAME_LIMIT]


# Tools: JSON schema, cut down to what the API's own Schema knows

_KEPT = frozenset({
    "title", "description", "nullable", "pattern", "minimum", "maximum", "minItems", "maxItems",
    "minLength", "maxLength", "minProperties", "maxProperties",
})  # fmt: skip
_ABOUT = frozenset({"title", "description", "nullable"})
_FORMATS = frozenset({"enum", "date-time", "float", "double", "int32", "int64"})
_DEEPEST = 10
"""A schema that contains itself has to end somewhere."""


def _tool(spec: ToolSpec) -> _Json:
    declared: _Json = {"name": spec.name, "description": spec.description}
    # An object without properties is refused; a function without parameters is not.
    if spec.parameters.get("properties"):
        declared["parameters"] = schema(spec.parameters, spec.parameters)
    return declared


def schema(source: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> _Json:
    """`source` without what Gemini refuses. `root` is where its references point into."""
    source = _resolved(source, root)
    about = {key: source[key] for key in _ABOUT & source.keys()}
    if depth == _DEEPEST:
        return {**about, "type": "STRING"}
    if options := _options(source):
        real = [option for option in options if option.get("type") != "null"]
        chosen = [schema(option, root, depth + 1) for option in real]
        null = {"nullable": True} if len(real) < len(options) else {}
        return (
            {**chosen[0], **about, **null} if len(real) == 1 else {**about, **null, "anyOf": chosen}
        )
    clean: _Json = {key: source[key] for key in _KEPT & source.keys()}
    if named := source.get("type") or ("object" if "properties" in source else ""):
        clean["type"] = str(named).upper()
    if source.get("format") in _FORMATS:
        clean["format"] = source["format"]
    values: list[Any] = [source["const"]] if "const" in source else list(source.get("enum", ()))
    if values and all(isinstance(value, str) for value in values):
        clean |= {"type": "STRING", "enum": values}
    return clean | _nested(source, root, depth)


def _options(source: Mapping[str, Any]) -> list[_Json]:
    """The alternatives, of which a list of types is one way to speak."""
    types: Any = source.get("type")
    if isinstance(types, list):
        return [{**source, "type": name} for name in cast("list[str]", types)]
    options: Any = source.get("anyOf") or source.get("oneOf") or []
    return [cast("_Json", option) for option in options if isinstance(option, Mapping)]


def _resolved(source: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the schema that a $ref points at in place of it; what stands beside it wins."""
    target: Any = root
    reference = source.get("$ref")
    if not isinstance(reference, str):
        return source
    for step in reference.removeprefix("#").strip("/").split("/"):
        target = cast("_Json", target).get(step) if isinstance(target, Mapping) else None
    beside = {key: value for key, value in source.items() if key != "$ref"}
    return {**cast("_Json", target), **beside} if isinstance(target, Mapping) else beside


def _nested(source: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> _Json:
    clean: _Json = {}
    if properties := cast("_Json", source.get("properties")):
        clean["properties"] = {k: schema(v, root, depth + 1) for k, v in properties.items()}
        if required := [name for name in source.get("required", ()) if name in properties]:
            clean["required"] = required
    if source.get("type") == "array":
        items = source.get("items")
        known = cast("_Json", items) if isinstance(items, Mapping) else {"type": "string"}
        clean["items"] = schema(known, root, depth + 1)
    return clean


# What comes back


class _Error(Struct):
    code: int = 0
    message: str = ""
    status: str = ""


class _Refused(Struct):
    error: _Error


class _FunctionCall(Struct):
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | None = None


class _Part(Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None


class _Content(Struct):
    parts: list[_Part] = []


class _Candidate(Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Feedback(Struct, rename="camel"):
    block_reason: str | None = None


class _Tokens(Struct, rename="camel"):
    prompt_token_count: int = 0
    candidates_token_count: int = 0
    cached_content_token_count: int = 0
    thoughts_token_count: int = 0
    tool_use_prompt_token_count: int = 0


class _News(Struct, rename="camel"):
    candidates: list[_Candidate] = []
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Tokens | None = None
    error: _Error | None = None


_NEWS = msgspec.json.Decoder(_News)
_REFUSAL: msgspec.json.Decoder[_Refused | list[_Refused]] = msgspec.json.Decoder(
    _Refused | list[_Refused]
)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def _read(data: str) -> _News:
    try:
        return _NEWS.decode(data)
    except msgspec.MsgspecError as error:
        raise ModelError(provider=PROVIDER, reason="a stream that cannot be read") from error


class _Answer:
    """An answer, put together from its parts."""

    def __init__(self) -> None:
        self._calls: list[ToolCall] = []
        self._layout: list[_Json] = []
        self._reason = ""
        self._message = ""
        self._tokens = _Tokens()

    def take(self, news: _News) -> Iterator[str]:
        """The texts for the person that came."""
        if news.prompt_feedback and (blocked := news.prompt_feedback.block_reason):
            raise ModelRefused(provider=PROVIDER, reason=f"the prompt was blocked ({blocked})")
        self._tokens = news.usage_metadata or self._tokens
        for candidate in news.candidates[:1]:
            self._reason = candidate.finish_reason or self._reason
            self._message = candidate.finish_message or self._message
            for part in candidate.content.parts if candidate.content else ():
                if text := self._part(part):
                    yield text

    def _part(self, part: _Part) -> str:
        """Keeps what has to go back; says what is for the person."""
        item: _Json
        signature = {"signature": part.thought_signature} if part.thought_signature else {}
        if part.function_call is not None:
            call = part.function_call
            # Older models give their calls no ids.
            made = ToolCall(call.id or f"call_{secrets.token_hex(8)}", call.name, _arguments(call))
            self._calls.append(made)
            own = {"own": True} if call.id else {}
            self._layout.append({"call": made.id, **own, **signature})
        elif part.text and not part.thought:
            item = {"text": len(part.text), **signature}
            # A signed part stays by itself; the others are one text, cut up for the way.
            if self._layout and not signature and self._layout[-1].keys() == {"text"}:
                self._layout[-1]["text"] += item["text"]
            else:
                self._layout.append(item)
            return part.text
        return ""

    def rest(self) -> Iterator[Piece]:
        """The calls and the end; or an error when there is none to this answer."""
        if not self._reason:
            raise ModelCutOff(provider=PROVIDER)
        stop = _STOPS.get(self._reason)
        if stop is None:
            reason = self._message.strip().rstrip(".") or f"it stopped with {self._reason}"
            raise ModelError(provider=PROVIDER, reason=reason)
        calls = self._calls if stop is not Stop.REFUSED else []
        yield from map(Call, calls)
        kept = any(item.keys() - {"text", "call"} for item in self._layout)
        yield End(
            stop=Stop.CALLS if calls and stop is Stop.DONE else stop,
            usage=self._usage(),
            extras={_EXTRAS: self._layout} if kept and len(calls) == len(self._calls) else {},
        )

    def _usage(self) -> Usage:
        tokens = self._tokens
        return Usage(
            input=tokens.prompt_token_count + tokens.tool_use_prompt_token_count,
            output=tokens.candidates_token_count + tokens.thoughts_token_count,
            cached=tokens.cached_content_token_count,
        )


def _arguments(call: _FunctionCall) -> str:
    written = bytes(call.args).decode()
    return written if written.startswith("{") else "{}"
