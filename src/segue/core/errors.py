"""All errors, sorted by who must act.

    SegueError
    ├── UserError                 the user can fix it; the message says what to do next
    │   ├── SessionError          SessionNotFound, AmbiguousSession, SessionHeld, SessionMoved,
    │   │                         SessionBusy, SessionChanged, MessageTaken, NothingSaid,
    │   │                         NothingToUndo, NothingToRestore, NothingToCompress
    │   ├── TitleError            TitleEmpty, TitleTaken
    │   ├── HandoffError          UnknownPlatform, PlatformNotSetUp, PlatformNotEnabled,
    │   │                         PageNotServed, NoHomeChannel, NoGateway, HandoffInFlight,
    │   │                         TurnRunning, UnknownChat
    │   ├── PlatformError         BadAdapter, LibraryMissing, ValuesMissing, NoTerminal,
    │   │                         SetupFailed, ConnectFailed, DeliveryFailed, MustWait
    │   ├── AccessError           PairingRefused, NotPaired, ApprovalOver,
    │   │                         ApprovalUnnamed, ApprovalNotShown
    │   ├── GatewayError          GatewayRunning, GatewayNotRunning, GatewayFailed,
    │   │                         GatewayElsewhere, GatewayStuck, PlatformLost, NoGatewayLog,
    │   │                         NoPage
    │   ├── ModelError            NoModel, ModelUnusable, ForeignServer, BadKey, UnknownModel,
    │   │                         NoCredit, ContextTooLong, ModelRefused, ModelBusy, ModelOffline,
    │   │                         ModelStalled, ModelCutOff, LocalMissing, LocalFailed
    │   ├── CommandError          UnknownCommand, BadCommand, CommandElsewhere
    │   ├── NoteError             NoteNotFound, NoteEmpty, NoteTooLong, TooManyNotes
    │   ├── SettingsError         BadSettings, SettingsUnwritable, HistoryUnwritable,
    │   │                         UnknownSetting, SettingRefused, NoEditor
    │   ├── TooManyFiles, DemoFailed, PullFailed, BadImage, MessageTooLong, BadImport, BadDelivery,
    │   │   OwnerNotFound, IdentityTaken, AddressTaken
    │   └── StoreError            BadStoreUrl, StoreFolderMissing, StoreMissing, StoreForeign,
    │                             StoreNewer, StoreCorrupt, StoreReadOnly, StoreFull, StoreBusy,
    │                             StoreUnreachable, StoreEncoding, StoreDriverMissing,
    │                             StoreTooOld, StoreFailed, StoreUncertain
    └── StoreClosed               a bug: the store was used after it was closed

An error's docstring is the message that the user reads. Its fields fill the braces.
"""

from __future__ import annotations

from segue.core.redaction import redacted


class SegueError(Exception):
    """Something went wrong."""

    def __init__(self, **fields: object) -> None:
        self.fields = fields
        text = " ".join((type(self).__doc__ or type(self).__name__).split())
        super().__init__(redacted(text.format(**fields)))


class UserError(SegueError):
    """Something needs your attention."""


# Sessions


class SessionError(UserError):
    """Something is wrong with this session."""


class SessionNotFound(SessionError):
    """There is no session {name!r}. Type /sessions, or `segue sessions` in a shell, to see
    yours."""


class AmbiguousSession(SessionError):
    """{name!r} fits several sessions: {candidates}. Give the whole title or more of the id."""


class SessionHeld(SessionError):
    """This session is open in {holder}. Leave it there first, or take it over."""


class SessionMoved(SessionError):
    """This session is no longer here: it is {where} now. Type `segue resume {session}` to bring
    it back."""


class SessionBusy(SessionError):
    """A handoff of this session is under way. Wait until it is over, or press Ctrl-C in the
    terminal that began it."""


class SessionChanged(SessionError):
    """The session went on somewhere else while it was being handed off, so it stayed where it
    is. Type /handoff again from there."""


class MessageTaken(SessionError):
    """That message is being answered already. Wait for the answer; nothing was done twice."""


class NothingSaid(SessionError):
    """There is no session here yet: it begins with the first thing you say. Type /resume to bring
    an earlier one here."""


class NothingToUndo(SessionError):
    """There is no earlier message of yours to go back to."""


class NothingToRestore(SessionError):
    """There is nothing to bring back: no messages were undone, or the conversation has gone on
    since."""


class NothingToCompress(SessionError):
    """There is nothing to compress: little was said since the last summary."""


# Titles


class TitleError(UserError):
    """That title cannot be used."""


class TitleEmpty(TitleError):
    """A title needs at least one visible character. Type /title followed by a name."""


class TitleTaken(TitleError):
    """You already have a session called {title!r}. Try {suggestion!r}."""


# Handoffs


class HandoffError(UserError):
    """The handoff could not be done."""


class UnknownPlatform(HandoffError):
    """There is no platform {platform!r} to hand off to. Try {suggestion}."""


class PlatformNotSetUp(HandoffError):
    """The gateway that is running does not serve {platform}. Type `segue setup {platform}`."""


class PlatformNotEnabled(HandoffError):
    """The gateway that is running does not serve {platform}. Type `segue config set
    {setting}` and the bot's token, then `segue gateway stop` and `segue gateway start`."""


class PageNotServed(HandoffError):
    """The gateway that is running does not serve the web page. Type `segue config set web.enabled
    true`, then `segue gateway stop` and `segue gateway start`."""


class NoHomeChannel(HandoffError):
    """There is no home channel on {platform} yet. Send /sethome in the chat where handoffs should
    arrive; if nobody answers you there, type `segue pair` first."""


class NoGateway(HandoffError):
    """No gateway is running, and only a gateway can bring a session to {platform}. Type `segue
    gateway start` in another terminal, then /handoff {platform} again."""


class HandoffInFlight(HandoffError):
    """This session is already being handed off to {platform}. Wait until that is over, or press
    Ctrl-C in the terminal that began it."""


class TurnRunning(HandoffError):
    """The agent is still at work, and a handoff moves what is there when you ask for it. Wait for
    the answer, or press Ctrl-C; then type /handoff again."""


class UnknownChat(HandoffError):
    """{chat!r} is not one of your chats on {platform}. Send something to the bot there first, or
    leave the chat out to use your home channel."""


# Platforms


class PlatformError(UserError):
    """Something went wrong on a platform."""


class BadAdapter(PlatformError):
    """There is no adapter for {platform}: {reason}. Check platforms.{platform}.adapter with `segue
    config show`, or set platforms.{platform}.enabled to false."""


class LibraryMissing(PlatformError):
    """{platform} needs one more package. Type `make extra NAME={extra}` in the folder of the
    project."""


class ValuesMissing(PlatformError):
    """{platform} has no value for {settings}. Type `segue setup {platform}`, or set {variables}."""


class NoTerminal(PlatformError):
    """There is no terminal to ask on, and {platform} needs {labels}. Add {options}; the value - is
    read from standard input."""


class SetupFailed(PlatformError):
    """It is not set up yet: {reason}. Mend that, and type `segue setup {platform}` again."""


class ConnectFailed(PlatformError):
    """{platform} cannot be reached: {reason}. It is tried again by itself; type `segue gateway
    status` to see how it stands."""


class DeliveryFailed(PlatformError):
    """That did not reach {platform}: {reason}. Type `segue gateway status` to see how it stands."""

    def __init__(
        self,
        *,
        platform: object,
        reason: str,
        retry: bool = False,
        after: float | None = None,
        arrived: bool = False,
    ) -> None:
        """Create the error.

        `retry`: another attempt may succeed, `after` that many seconds if the platform says so.
        `arrived`: the message may have arrived, so it is safe to repeat only with a key.
        """
        super().__init__(platform=platform, reason=reason)
        self.reason = reason
        self.retry = retry
        self.after = after
        self.arrived = arrived


class MustWait(PlatformError):
    """{platform} asks to wait {seconds} seconds, longer than a handoff may take. The session
    stayed where it was. Type /handoff {platform} again at {at:%H:%M}."""


# Access


class AccessError(UserError):
    """That is not yours to do."""


class PairingRefused(AccessError):
    """That code is not valid: it was used, or its time is over. Type `segue pair` for another."""


class NotPaired(AccessError):
    """{platform} user {user_id!r} is not paired with you. Type `segue pair list` to see who is."""


class ApprovalOver(AccessError):
    """That question is over: {reason}. Send your request again if you still want it done."""


class ApprovalUnnamed(AccessError):
    """An answer has to name its question. Type /approve {number} to allow it, /deny {number} to
    refuse it, /show {number} to see it again."""


class ApprovalNotShown(AccessError):
    """Question {number} was not delivered yet. Wait until you see it, then answer it."""


# The gateway


class GatewayError(UserError):
    """Something is wrong with the gateway."""


class GatewayRunning(GatewayError):
    """{name} serves {platforms} already. Type `segue gateway status` to look at it, or `segue
    gateway stop` first."""


class GatewayNotRunning(GatewayError):
    """No gateway is running. Type `segue gateway start`."""


class GatewayFailed(GatewayError):
    """The gateway did not start: {reason}. Type `segue gateway logs` to see more."""


class GatewayElsewhere(GatewayError):
    """{name} cannot be stopped from here: it belongs to {where}. Type `segue gateway stop`
    there."""


class GatewayStuck(GatewayError):
    """{name} has not ended within {seconds:.0f} seconds. Type `segue gateway logs` to see what it
    does, or `kill -9 {pid}`: the next one goes on where it stopped."""


class PlatformLost(GatewayError):
    """Another gateway serves {platform} now. Type `segue gateway status` to see which."""


class NoGatewayLog(GatewayError):
    """There is no log at {path} yet. Type `segue gateway start`: it begins with that."""


class NoPage(GatewayError):
    """There is no page that the local network could reach: a gateway of these settings serves none.
    Type `segue config set web.enabled true`, then try again."""


# Models


class ModelError(UserError):
    """{provider} answered with an error: {reason}. Try again, or type /model to choose another."""


class NoModel(ModelError):
    """There is no model to talk to yet: {reason}. Type `segue model` to see what is possible."""


class ModelUnusable(ModelError):
    """The model {model!r} cannot be used: {reason}. Type `segue model` to see what is possible."""


class ForeignServer(ModelError):
    """{provider} at {place} runs as {account}, not as you, and would hear this conversation. If you
    trust it, type `segue config set server_accounts {accounts}`."""


class BadKey(ModelError):
    """{provider} does not accept the key. Check {setting}, or type /model to choose another."""


class UnknownModel(ModelError):
    """{provider} has no model {model!r}. Type `segue model list` to see the ones there are."""


class NoCredit(ModelError):
    """The account at {provider} has no credit left. Add some there, or type /model to choose
    another model."""


class ContextTooLong(ModelError):
    """The conversation is too long for {model}. Type /compress to shorten it."""


class ModelRefused(ModelError):
    """{provider} refused the request: {reason}. Try to put it differently, or type /model to
    choose another."""


class ModelBusy(ModelError):
    """{provider} is too busy: {reason}. Wait a moment, then try again."""


class ModelOffline(ModelError):
    """{provider} cannot be reached at {url}: {reason}. Check the network and the address."""


class ModelStalled(ModelError):
    """{provider} has said nothing for {seconds} seconds. Try again."""


class ModelCutOff(ModelError):
    """The connection to {provider} broke in the middle of the answer. Try again."""


class LocalMissing(ModelError):
    """The embedded model is not here yet: {missing}. Type `segue model pull` to get it."""


class LocalFailed(ModelError):
    """The embedded model did not start: {reason}. Look at {log}, or type /model to choose
    another."""


class PullFailed(UserError):
    """The embedded model could not be fetched: {reason}. Type `segue model pull` to go on where it
    stopped."""


# The demo


class DemoFailed(UserError):
    """The demo did not get past this step: {reason}. Type `segue doctor` to see whether something
    is missing; nothing of the demo is left behind."""


# Commands


class CommandError(UserError):
    """That command does not work."""


class UnknownCommand(CommandError):
    """There is no command /{name} here{hint}. Type /help to see all of them."""


class BadCommand(CommandError):
    """That does not work: {reason}. Type {usage}."""


class CommandElsewhere(CommandError):
    """/{name} {hint}. Type /help to see what can be typed here."""


# Notes


class NoteError(UserError):
    """That note cannot be kept."""


class NoteNotFound(NoteError):
    """There is no note {number}. Type `segue memory` to see yours."""


class NoteEmpty(NoteError):
    """A note needs at least one visible character. Give it a text."""


class NoteTooLong(NoteError):
    """That note has {size} characters; at most {limit} fit, because every conversation begins with
    all notes. Make it shorter."""


class TooManyNotes(NoteError):
    """There are {limit} notes already, and every conversation begins with all of them. Type
    `segue memory` and remove one first."""


# Settings


class SettingsError(UserError):
    """Something is wrong with the settings."""


class BadSettings(SettingsError):
    """The settings in {path} cannot be used: {reason}. Mend that, then try again."""


class SettingsUnwritable(SettingsError):
    """The settings in {path} cannot be written: {reason}. Make the file and its folder writable
    for you."""


class HistoryUnwritable(SettingsError):
    """What you type is not remembered for next time: {path} cannot be written ({reason}). Make it
    writable for you, or set XDG_STATE_HOME to another folder."""


class UnknownSetting(SettingsError):
    """There is no setting {name!r}{hint}. Type `segue config show` to see the ones there are."""


class SettingRefused(SettingsError):
    """Nothing was changed: {reason}. Type `segue config show` to see how things are."""


class NoEditor(SettingsError):
    """{reason}. Set EDITOR to an editor of yours, or type `segue config set`."""


# What comes in


class BadImage(UserError):
    """That picture cannot be used: {reason}. Send a PNG, JPEG, GIF or WebP of at most {limit}
    megabytes."""


class MessageTooLong(UserError):
    """That message has {size:,} bytes; at most {limit:,} fit. Send it as a file, or in parts."""


class BadImport(UserError):
    """Line {line} of the import is not a message of a Segue export: {reason}. Nothing was
    imported: mend that line, then try again."""


class BadDelivery(UserError):
    """{target!r} is no place to deliver to. Use origin, local, the name of a platform with a home
    channel, or platform:chat_id."""


class OwnerNotFound(UserError):
    """There is no owner {owner!r}. Check the name."""


class AddressTaken(UserError):
    """The conversation in this chat belongs to somebody else. Begin yours in a direct message."""


class IdentityTaken(UserError):
    """{platform} user {user_id} already belongs to another owner. Type `segue pair revoke` there
    first."""


# The store


class StoreError(UserError):
    """Something is wrong with the store."""


class BadStoreUrl(StoreError):
    """{url!r} is not a store. Use sqlite:///absolute/path.db or postgresql://user@host/database."""


class StoreFolderMissing(StoreError):
    """The folder {folder} does not exist. Type `mkdir -p -m 700 {folder}`, or set
    SEGUE_STORE to another place."""


class StoreMissing(StoreError):
    """The store {path} is gone, though it was there before. Put it back, or, to begin with an
    empty one, remove {marker}."""


class StoreForeign(StoreError):
    """{path} belongs to something else than Segue. Nothing was changed in it: set
    SEGUE_STORE to another place."""


class StoreNewer(StoreError):
    """The store was written by a newer Segue (schema {found}; this one knows {known}). Update
    Segue: nothing was changed."""


class StoreCorrupt(StoreError):
    """The store {path} is damaged: {reason}. Stop Segue, keep a copy of the file, and restore a
    backup. Nothing was repaired by itself."""


class StoreReadOnly(StoreError):
    """The store {path} cannot be written: {reason}. Make the file and its folder writable for
    you, or set SEGUE_STORE to another place."""


class StoreFull(StoreError):
    """No space is left for the store {path}. Free some, then try again: nothing that was saved is
    lost."""


class StoreBusy(StoreError):
    """Another program has kept the store {path} locked for too long. Close it, then try again."""


class StoreUnreachable(StoreError):
    """The database {path} does not answer: {reason}. Check that it runs and that the address and
    password are right."""


class StoreEncoding(StoreError):
    """The database {path} has the encoding {encoding}, which cannot keep every character. Type
    `createdb --encoding=UTF8 --template=template0 segue`, and set SEGUE_STORE to that database."""


class StoreDriverMissing(StoreError):
    """Stores on PostgreSQL need one more package. Type `make extra NAME=postgres` in the folder of
    the project."""


class StoreTooOld(StoreError):
    """SQLite {found} can damage a database that several programs share. Segue needs {needed} or
    newer: reinstall it with its own packages."""


class StoreFailed(StoreError):
    """The store {path} failed: {reason}. The last step was not saved; try it again."""


class StoreUncertain(StoreError):
    """The connection to the store {path} broke at the very end of the last step, so it may or may
    not have been saved. Look before you repeat it."""


class TooManyFiles(UserError):
    """Too many files are open. Type `ulimit -n 4096`, or close programs that use many, then try
    again."""


class StoreClosed(SegueError):
    """The store was used after it was closed."""
