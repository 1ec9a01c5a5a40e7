"""What a message shares that is neither text nor a file, in words for the agent."""

from __future__ import annotations

from segue.platforms.telegram.wire import Contact, Location, Message, Poll


def shared(message: Message) -> str:
    """A place, a contact, a poll or a throw of dice; empty when there is none."""
    if (venue := message.venue) is not None:
        name = ", ".join(filter(None, (venue.title, venue.address)))
        return f"[A place: {name}, at {_point(venue.location)}]"
    if message.location is not None:
        return f"[A location: {_point(message.location)}]"
    if message.contact is not None:
        return f"[A contact: {_contact(message.contact)}]"
    if message.poll is not None:
        return f"[A poll: {_poll(message.poll)}]"
    if message.dice is not None:
        return f"[{message.dice.emoji} shows {message.dice.value}]"
    return ""


def _point(location: Location) -> str:
    return f"latitude {location.latitude}, longitude {location.longitude}"


def _contact(contact: Contact) -> str:
    name = f"{contact.first_name} {contact.last_name}".strip()
    return f"{name}, {contact.phone_number}"


def _poll(poll: Poll) -> str:
    return "\n- ".join((poll.question, *(option.text for option in poll.options)))
