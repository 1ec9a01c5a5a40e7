"""Converts JSON schemas to the subset that the Gemini API supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_Json = dict[str, Any]

_KEPT = frozenset({
    "title", "description", "nullable", "pattern", "minimum", "maximum", "minItems", "maxItems",
    "minLength", "maxLength", "minProperties", "maxProperties",
})  # fmt: skip
_ABOUT = frozenset({"title", "description", "nullable"})
_FORMATS = frozenset({"enum", "date-time", "float", "double", "int32", "int64"})
_MAX_DEPTH = 10
"""The maximum depth, because a schema can contain itself."""


def schema(source: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> _Json:
    """Convert `source`, dropping what Gemini rejects. References are resolved in `root`."""
    source = _resolved(source, root)
    about = {key: source[key] for key in _ABOUT & source.keys()}
    if depth == _MAX_DEPTH:
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
    """The alternatives in `source`. A list of types also counts as alternatives."""
    types: Any = source.get("type")
    if isinstance(types, list):
        return [{**source, "type": name} for name in cast("list[str]", types)]
    options: Any = source.get("anyOf") or source.get("oneOf") or []
    return [cast("_Json", option) for option in options if isinstance(option, Mapping)]


def _resolved(source: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace a $ref with the schema it points to. Keys next to the $ref take precedence."""
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
