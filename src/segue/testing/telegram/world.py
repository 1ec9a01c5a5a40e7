"""The whole state of the Telegram fake, which `Clear` resets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from segue.testing.peers import Faults, Pulse, Steps
from segue.testing.telegram import control, errors, wire
from segue.testing.telegram.messages import Sending
from segue.testing.telegram.people import People
from segue.testing.telegram.queries import Asking
from segue.testing.telegram.requests import Sent
from segue.testing.telegram.snapshot import Called, Settings, Shown, Typing
from segue.testing.telegram.state import State
from segue.testing.telegram.topics import Topics
from segue.testing.telegram.updates import Updates

Files = Mapping[str, Sent]


class World:
    def __init__(self, settings: Settings, bot: int, pulse: Pulse) -> None:
        self.pulse = pulse
        self.updates = Updates(pulse, settings.webhook)
        self.faults = Faults(pulse, errors.ordered)
        self.state = State(settings, bot)
        self.asking = Asking(self.state, self.updates)
        self.counts: Counter[str] = Counter()
        self.calls: list[Called] = []
        self.errors: list[str] = []
        self._people = People(self.state, self.updates)
        sending, topics, asking = Sending(self.state), Topics(self.state), self.asking
        self._with_files: Mapping[type[Any], Callable[[Any, Files], object]] = {
            wire.SendDocument: sending.document,
            wire.SendPhoto: sending.photo,
        }
        self._methods: Steps = {
            wire.GetMe: asking.me,
            wire.GetWebhookInfo: asking.webhook,
            wire.DeleteWebhook: asking.delete_webhook,
            wire.GetChat: asking.chat,
            wire.GetChatMember: asking.member,
            wire.GetChatAdministrators: asking.administrators,
            wire.GetChatMemberCount: asking.count,
            wire.GetFile: asking.file,
            wire.SetMyCommands: asking.set_commands,
            wire.GetMyCommands: asking.get_commands,
            wire.DeleteMyCommands: asking.delete_commands,
            wire.SendMessage: sending.message,
            wire.SendMessageDraft: sending.draft,
            wire.SendChatAction: sending.action,
            wire.EditMessageText: sending.edit_text,
            wire.EditMessageCaption: sending.edit_caption,
            wire.EditMessageReplyMarkup: sending.edit_markup,
            wire.DeleteMessage: sending.delete,
            wire.SetMessageReaction: sending.react,
            wire.AnswerCallbackQuery: sending.answer,
            wire.CreateForumTopic: topics.create,
            wire.EditForumTopic: topics.edit,
            wire.CloseForumTopic: topics.close,
            wire.ReopenForumTopic: topics.reopen,
            wire.DeleteForumTopic: topics.delete,
        }

    def carry_out(self, call: wire.Call, files: Files) -> object:
        """Carry out any call except GetUpdates. Raises Refuse or Malformed."""
        if (with_files := self._with_files.get(type(call))) is not None:
            return with_files(call, files)
        return self._methods[type(call)](call)

    def steps(self) -> Steps:
        """The handler for each order."""
        people = self._people
        return {
            control.SetBot: people.set_bot,
            control.AddUser: people.add_user,
            control.AddChat: people.add_chat,
            control.SetRights: people.set_rights,
            control.Say: people.say,
            control.Rewrite: people.rewrite,
            control.React: people.react,
            control.Press: people.press,
            control.Join: people.join,
            control.Migrate: people.migrate,
            control.OpenTopic: people.open_topic,
            control.CloseTopic: people.close_topic,
            control.DeleteTopic: people.delete_topic,
            control.Erase: people.erase,
            control.Deliver: lambda order: self.updates.deliver(order.frame),
            control.Recall: self._recall,
            control.Fetch: lambda order: self.state.file(order.file)[1],
        }

    def _recall(self, order: control.Recall) -> list[Called]:
        return [call for call in self.calls if order.method in (None, call.method)]

    def shown(self, chat: int | None) -> Shown:
        """The visible state, only of `chat` if it is given."""
        state = self.state
        typing = [
            Typing(chat=where, thread=thread, action=action, times=times)
            for (where, thread, action), times in state.typing.items()
        ]
        return Shown(
            version=self.pulse.count,
            messages=tuple(
                it
                for it in state.messages.values()
                if it.service is None and chat in (None, it.chat)
            ),
            topics=tuple(it for it in state.topics.values() if chat in (None, it.chat)),
            typing=tuple(it for it in typing if chat in (None, it.chat)),
            drafts=tuple(it for it in state.drafts.values() if chat in (None, it.chat)),
            answered=tuple(state.answered),
            menus=tuple(state.menus),
            counts=dict(self.counts),
            errors=tuple(self.errors),
            hanging=self.faults.hanging,
            unconfirmed=self.updates.unconfirmed,
        )
