"""The messages that users get when something goes wrong."""

from __future__ import annotations

import inspect
import re
from string import Formatter

import pytest

from segue.core import errors
from segue.core.errors import SegueError, UserError

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
FIXABLE = [cls for cls in CLASSES if issubclass(cls, UserError) and cls not in FAMILIES]

# The first words of an advice. A new error uses one of them, or adds its own here.
WAYS_OUT = (
    "Add|Check|Close|Fix|Free|Give|Hand|Make|Rephrase|Reinstall|Restore|See|Send|Set|Start|Stop|Try"
    "|Type|Update|Use|Wait"
)
NOTHING_TO_FIX = {errors.NothingToUndo, errors.NothingToRestore, errors.NothingToCompress}


class Field:
    """Fits any field of a message."""

    def __format__(self, spec: str) -> str:
        return "value"

    def __repr__(self) -> str:
        return "'value'"


def message(cls: type[SegueError]) -> str:
    names = (name for _, name, _, _ in Formatter().parse(cls.__doc__ or "") if name)
    return str(cls(**{name: Field() for name in names}))


def test_the_error_tree_in_the_docstring_has_every_error_once():
    drawn = re.findall(r"\b[A-Z]\w+", TREE)
    assert sorted(drawn) == sorted(cls.__name__ for cls in CLASSES)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in (SegueError, UserError)])
def test_the_error_tree_in_the_docstring_has_every_error_under_its_base(family: type[SegueError]):
    (branch,) = [b for b in re.split("[├└]── ", TREE) if b.startswith(family.__name__)]
    drawn = re.findall(r"\b[A-Z]\w+", branch)
    assert drawn[0] == family.__name__
    alone = (cls for cls in children(family) if cls not in FAMILIES)  # a family has its branch
    assert sorted(drawn[1:]) == sorted(cls.__name__ for cls in alone)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_has_its_own_message_on_one_line(cls: type[SegueError]):
    text = message(cls)
    assert cls.__doc__ != (cls.__base__ or cls).__doc__
    assert text.endswith(".")
    assert not re.search(r"[{}\n]|  ", text)


@pytest.mark.parametrize("cls", FIXABLE)
def test_a_user_error_says_how_to_fix_it(cls: type[SegueError]):
    says_how = re.search(rf"(?:[.;:,] |\.value |^)(?:{WAYS_OUT})\b", message(cls), re.IGNORECASE)
    assert bool(says_how) is (cls not in NOTHING_TO_FIX)


def test_fields_are_formatted_into_the_message_and_kept():
    error = errors.SessionNotFound(name="my {project}")
    assert str(error).startswith("There is no session “my {project}”. Type /sessions, or ")
    assert error.fields == {"name": "my {project}"}


def test_a_missing_field_is_an_error_at_once():
    with pytest.raises(KeyError):
        errors.SessionNotFound()
