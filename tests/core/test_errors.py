"""The messages that users get when something goes wrong."""

from __future__ import annotations

import inspect
import re
from string import Formatter

import pytest

from segue.core import errors
from segue.core.errors import SegueError, UserError
from tests.harness.sentences import Sentence, caught, is_a, sentences, source

CLASSES = [
    thing
    for thing in vars(errors).values()
    if inspect.isclass(thing) and issubclass(thing, SegueError)
]
TREE = (errors.__doc__ or "").split("\n\n")[1]


def children(cls: type[SegueError]) -> list[type[SegueError]]:
    """The errors in the tree. Subclasses in other modules are their own matter."""
    return [child for child in cls.__subclasses__() if child in CLASSES]


FAMILIES = [cls for cls in CLASSES if children(cls)]

# The first words of an advice. A new error uses one of them, or adds its own here.
WAYS_OUT = (
    "Add|Check|Close|Fix|Free|Give|Hand|Make|Rephrase|Reinstall|Restore|See|Send|Set|Start|Stop|Try"
    "|Type|Update|Use|Wait"
)
_WAY_OUT = re.compile(rf"(?:[.;:,] |\.value |^)(?:{WAYS_OUT})\b", re.IGNORECASE)
NOTHING_TO_FIX = (
    "The agent gave no answer.",
    "There is no earlier message of yours to undo.",
    "There is nothing to ",
)


class Field:
    """Fits any field of a message."""

    def __format__(self, spec: str) -> str:
        return "value"

    def __repr__(self) -> str:
        return "'value'"


def message(cls: type[SegueError]) -> str:
    names = (name for _, name, _, _ in Formatter().parse(cls.__doc__ or "") if name)
    return str(cls(**{name: Field() for name in names}))


def test_the_error_tree_in_the_docstring_has_every_error_under_its_base():
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in TREE.splitlines():
        found = re.fullmatch(r"    ([│├└─ ]*)(\w+)(?:  .*)?", line)
        assert found, line
        depth = len(found[1]) // 4
        above = [*above[:depth], found[2]]
        assert found[2] not in drawn
        drawn[found[2]] = above[-2] if depth else "Exception"
    bases = {error: next(b for b in named if b) for error, named in source().bases.items()}
    assert drawn == bases


# Scripts read these names as the `kind` in the output of --json.
NAMED_ONLY = {"NoCredit", "ContextTooLong"}


def test_every_error_class_is_caught_by_its_type():
    assert source().bases.keys() - caught() == NAMED_ONLY


def is_one_line(text: str) -> bool:
    """Whether a message is one line that ends with a full stop, with a value in every field."""
    return text.endswith(".") and not re.search(r"[{}\n]|  ", text)


def test_every_error_has_its_own_message_on_one_line():
    assert [cls for cls in CLASSES if cls.__doc__ == (cls.__base__ or cls).__doc__] == []
    assert [cls for cls in CLASSES if not is_one_line(message(cls))] == []


def test_a_user_error_says_how_to_fix_it():
    with_sentence = {said.error for said in sentences()}
    fixable = [
        cls
        for cls in CLASSES
        if issubclass(cls, UserError) and cls not in FAMILIES and cls.__name__ not in with_sentence
    ]
    assert fixable
    assert [cls for cls in fixable if not _WAY_OUT.search(message(cls))] == []


def test_a_sentence_that_an_error_is_made_with_is_like_a_docstring():
    wrong: list[Sentence] = []
    for said in sentences():
        text = re.sub(r"{[^}]*}", "value", said.text)
        fits = is_one_line(text)
        if is_a(said.error, "UserError"):
            has_way_out = bool(_WAY_OUT.search(text))
            fits = fits and has_way_out is not text.startswith(NOTHING_TO_FIX)
        if not fits:
            wrong.append(said)
    assert wrong == []


def test_fields_are_formatted_into_the_message_and_kept():
    error = errors.SessionNotFound(name="my {project}")
    assert str(error).startswith("There is no session “my {project}”. Type /sessions, or ")
    assert error.fields == {"name": "my {project}"}


def test_a_missing_field_is_an_error_at_once():
    with pytest.raises(KeyError):
        errors.SessionNotFound()
