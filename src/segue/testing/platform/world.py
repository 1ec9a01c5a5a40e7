"""The whole state of the test platform, which `Clear` resets."""

from __future__ import annotations

from collections import Counter

from segue.testing.peers import Faults, Pulse, Steps
from segue.testing.platform import control, errors
from segue.testing.platform.calls import Calls
from segue.testing.platform.control import Message, PreviewSeen, Refused, Shown, Thread, TypingSeen
from segue.testing.platform.service import Service
from segue.testing.platform.updates import Updates
from segue.testing.platform.wire import Rules


class World:
    def __init__(self, rules: Rules, pulse: Pulse) -> None:
        self.pulse = pulse
        self.updates = Updates(pulse)
        self.faults = Faults(pulse, errors.ordered)
        self.service = Service(rules, self.updates.add)
        self.calls = Calls(self.service, self.updates)
        self.counts: Counter[str] = Counter()
        self.refused: list[Refused] = []

    def steps(self) -> Steps:
        """The handler for each order."""
        service = self.service
        return {
            control.AddUser: service.add_user,
            control.AddChat: service.add_chat,
            control.Say: service.say,
            control.Rewrite: service.rewrite,
            control.Press: service.press,
            control.Join: service.join,
            control.DeleteThread: service.delete_thread,
            control.SetRules: service.set_rules,
        }

    def shown(self, chat: str | None) -> Shown:
        """The visible state, only of `chat` if it is given."""

        def inside(it: Message | Thread | TypingSeen | PreviewSeen) -> bool:
            return chat in (None, it.chat)

        service = self.service
        typing = (TypingSeen(chat=c, thread=t, times=n) for (c, t), n in service.typing.items())
        previews = (
            PreviewSeen(chat=c, thread=t, text=text) for (c, t), text in service.previews.items()
        )
        return Shown(
            version=self.pulse.count,
            messages=tuple(filter(inside, service.messages.values())),
            threads=tuple(filter(inside, service.threads.values())),
            typing=tuple(filter(inside, typing)),
            previews=tuple(filter(inside, previews)),
            menu=service.menu,
            calls=dict(self.counts),
            refused=tuple(self.refused),
            hanging=self.faults.hanging,
            unconfirmed=self.updates.unconfirmed,
        )
