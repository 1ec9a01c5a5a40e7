"""Content that is neither text nor a file, described in words for the agent."""

from __future__ import annotations

from segue.core.text import one_line
from segue.platforms.telegram.wire import Checklist, Contact, Content, Location, Poll


def shared(message: Content) -> str:
    """Describe a place, contact, poll, checklist, story or dice; "" if there is none. Others may
    have written the names in it, so each is put on one line."""
    if (venue := message.venue) is not None:
        name = ", ".join(filter(None, (one_line(venue.title), one_line(venue.address))))
        return f"[A place: {name}, at {_point(venue.location)}]"
    if message.location is not None:
        return f"[A location: {_point(message.location)}]"
    if message.contact is not None:
        return f"[A contact: {_contact(message.contact)}]"
    if message.poll is not None:
        return f"[A poll: {_poll(message.poll)}]"
    if message.checklist is not None:
        return f"[A checklist: {_checklist(message.checklist)}]"
    if message.story is not None:
        return f"[A story of {one_line(message.story.chat.name) or 'an unknown author'}]"
    if message.dice is not None:
        return f"[{message.dice.emoji} shows {message.dice.value}]"
    return ""


def _point(location: Location) -> str:
    return f"latitude {location.latitude}, longitude {location.longitude}"


def _contact(contact: Contact) -> str:
    name = one_line(f"{contact.first_name} {contact.last_name}")
    return f"{name}, {one_line(contact.phone_number)}"


def _poll(poll: Poll) -> str:
    return "\n- ".join(one_line(it) for it in (poll.question, *(o.text for o in poll.options)))


def _checklist(checklist: Checklist) -> str:
    tasks = (
        f"[{'x' if task.completion_date else ' '}] {one_line(task.text)}"
        for task in checklist.tasks
    )
    return "\n- ".join((one_line(checklist.title), *tasks))
