"""What goes wrong, and who catches it.

    SegueError                      the completion of the shell, which stays silent
    ├── UserError                   every front end, which shows it to the user, who can fix it
    │   ├── SessionError            the gateway's turns, expiry and janitor, a lease being renewed
    │   │   ├── SessionNotFound     /resume in a chat, a terminal that ends
    │   │   ├── AmbiguousSession    /resume in a chat
    │   │   ├── SessionHeld         a terminal and a job, which wait or take it over
    │   │   ├── SessionMoved        the gateway's turns, which leave the message to the new place
    │   │   ├── SessionElsewhere    a chat's door, which asks whether to bring the session there
    │   │   └── NothingSaid         a terminal that ends
    │   ├── HandoffError            the terminal, which stays open
    │   │   ├── NoGateway           the terminal, which offers to start one
    │   │   └── AudienceChanged     the outbox, which holds a question back
    │   ├── PlatformError           `segue doctor`
    │   │   ├── LibraryMissing      `segue setup`, which offers to install it
    │   │   ├── ConnectFailed       connections, which try again, and whatever sends
    │   │   │   └── SetupNeeded     a connection, which waits until the settings change
    │   │   └── DeliveryFailed      the outbox and handoffs, which send again or give up
    │   ├── ModelError              a turn, which ends with it
    │   │   ├── NoModel             the demo
    │   │   ├── ForeignServer       `segue model`, which shows what to type
    │   │   ├── BadKey              a check of the models, which asks for another key
    │   │   ├── UnknownModel        a check of the models
    │   │   ├── ModelRefused        the clients, which ask once more without what was refused
    │   │   │   └── UnknownField    the client for chat completions
    │   │   ├── ModelOffline        a check of the models; the embedded model
    │   │   ├── LocalMissing        the demo, which downloads it
    │   │   ├── NoCredit            scripts, which read its name in the output of --json
    │   │   ├── ContextTooLong      the same
    │   │   ├── ModelBusy           the client, which tries again
    │   │   ├── ModelServerError    the same
    │   │   ├── ModelStalled        the client, which ignores it after a finished answer
    │   │   └── ModelCutOff         the same
    │   ├── PullFailed              the demo, `segue setup` and `segue model pull`
    │   ├── DemoFailed              the demo, while it waits
    │   ├── NoteError               the agent's tool, which tells the model
    │   ├── SettingsError           `segue doctor`
    │   │   ├── BadSettings         the gateway, which keeps its settings; `segue config`
    │   │   └── HistoryUnwritable   the terminal, which goes on without a history
    │   ├── BadImage                the gateway, which leaves the picture out
    │   ├── BadDelivery             the agent's tool, which tells the model
    │   ├── OwnerNotFound           the page
    │   ├── IdentityTaken           the gate of the gateway; `segue setup`
    │   ├── AddressTaken            reports of jobs
    │   ├── StoreError              all work of the gateway, which waits until the store is back
    │   │   └── StoreUncertain      writes that may not be repeated
    │   ├── PairingRefused          the gate of the gateway and that of the page
    │   ├── ApprovalNotShown        the gateway, which shows the question in full
    │   ├── PlatformLost            a connection, which ends; no item is set aside
    │   ├── NoPage                  the gateway, which keeps its settings
    │   ├── UnknownCommand          a message that only looks like a command
    │   ├── CommandElsewhere        the same
    │   ├── JobNotFound             the agent's tool, which tells the model
    │   └── BadJob                  the agent's tool, which tells the model
    └── StoreClosed                 tasks that end with the store

An error has a class of its own only if the program catches that class. All others are raised as the
nearest class of the tree, with a message. If several places need the same message, a function makes
the error. If a class always has the same message, that is its docstring, with fields in braces.
"""

from __future__ import annotations

from segue.core.secret import redacted


class SegueError(Exception):
    """Something went wrong."""

    def __init__(self, sentence: str = "", /, **fields: object) -> None:
        """Create the error.

        `sentence` is what the user reads. Without one, they read the class's docstring, whose
        braces the `fields` fill. Code that catches the error may read the `fields`.
        """
        self.fields = fields
        if not sentence:
            sentence = " ".join((type(self).__doc__ or type(self).__name__).split())
            sentence = sentence.format(**fields)
        super().__init__(redacted(sentence))


class UserError(SegueError):
    """Something needs your attention."""


# Sessions


class SessionError(UserError):
    """Something is wrong with this session."""


class SessionNotFound(SessionError):
    """There is no session “{name}”. Type /sessions, or `segue sessions` in a shell, to list
    yours."""


class AmbiguousSession(SessionError):
    """“{name}” matches several sessions: {candidates}. Give the whole title or more of the id."""


class SessionHeld(SessionError):
    """This session is open in {holder}. Close it there first, or take it over."""


class SessionMoved(SessionError):
    """This session is no longer here: it is {where} now. Type `segue resume {session}` to bring it
    back."""


class SessionElsewhere(SessionError):
    """{label} {place}. Type /resume {name} to bring it here, or /new to start a new
    conversation."""


class NothingSaid(SessionError):
    """There is no session here yet. Send a message to start one, or type /resume to continue an
    earlier one here."""


# Handoffs


class HandoffError(UserError):
    """The handoff could not be done."""


class NoGateway(HandoffError):
    """No gateway is running, so the session cannot move to {platform}. Type `segue gateway start`
    in another terminal, then /handoff {platform} again."""


class AudienceChanged(HandoffError):
    """The chat is not as private as its owner believes."""


def no_home_channel(platform: object) -> HandoffError:
    return HandoffError(
        f"No home channel on {platform} yet. Send /sethome in the chat that should receive"
        " handoffs. If the bot does not answer there, type `segue pair` first."
    )


# Platforms


class PlatformError(UserError):
    """Something went wrong on a platform."""


class LibraryMissing(PlatformError):
    """{platform} needs packages that are not installed. Type `segue setup {platform} --yes`, which
    installs them, or `make extra NAME={extra}` in a clone of the project."""


class ConnectFailed(PlatformError):
    """{platform} cannot be reached: {reason}. Segue tries again automatically; type `segue gateway
    status` to see the state of the connection."""

    def __init__(self, *, platform: object, reason: str, after: float | None = None) -> None:
        """`after`: the platform asks to wait that many seconds before another attempt."""
        super().__init__(platform=platform, reason=reason)
        self.after = after


class SetupNeeded(ConnectFailed):
    """{platform} cannot be used: {reason}. Type `segue setup {platform}`. Segue tries again after
    that, or when the settings change."""


class DeliveryFailed(PlatformError):
    """The message did not reach {platform}: {reason}. Type `segue gateway status` to see the state
    of the connection."""

    def __init__(
        self,
        *,
        platform: object,
        reason: str,
        retry: bool = False,
        after: float | None = None,
        arrived: bool = False,
        ends_early: bool = False,
    ) -> None:
        """Create the error.

        `retry`: another attempt may succeed, `after` that many seconds if the platform says so.
        `arrived`: the message may have arrived, so it is safe to repeat only with a key.
        `ends_early`: the user can end the platform's pause, so attempts before `after` make sense.
        """
        super().__init__(platform=platform, reason=reason)
        self.reason = reason
        self.retry = retry
        self.after = after
        self.arrived = arrived
        self.ends_early = ends_early


# Access


class PairingRefused(UserError):
    """That code is not valid: it was used already, or it has expired. Type `segue pair` for a new
    one."""


class ApprovalNotShown(UserError):
    """Question {number} has not been delivered in full yet. Wait until you see all of it, then
    answer it."""


# The gateway


class PlatformLost(UserError):
    """Another gateway serves {platform} now. Type `segue gateway status` to see which."""


class NoPage(UserError):
    """The web page is disabled, so it cannot be served to the local network. Type `segue config set
    web.enabled true`, then try again."""


# Models


class ModelError(UserError):
    """{provider} answered with an error: {reason}. Try again, or type /model to choose another
    model."""


class NoModel(ModelError):
    """No model is available yet: {reason}. Type `segue model` to see the options."""


class ForeignServer(ModelError):
    """{provider} at {place} runs as {account}, not as you, and would receive this conversation. If
    you trust it, type `segue config set server_accounts {accounts}`."""


class BadKey(ModelError):
    """{provider} rejected the API key. Check {setting}, or type /model to choose another model."""


class UnknownModel(ModelError):
    """{provider} has no model {model!r}. Type `segue model list` to see the available models."""


class NoCredit(ModelError):
    """The account at {provider} has no credit left. Add credit there, or type /model to choose
    another model."""


class ContextTooLong(ModelError):
    """The conversation is too long for {model}. Type /compress to shorten it."""


class ModelRefused(ModelError):
    """{provider} refused the request: {reason}. Rephrase it, or type /model to choose another
    model."""


class ModelBusy(ModelError):
    """{provider} is too busy: {reason}. Wait a moment, then try again."""


class ModelServerError(ModelError):
    """{provider} had an internal error: {reason}. Try again, or type /model to choose another
    model."""


class ModelOffline(ModelError):
    """{provider} cannot be reached at {url}: {reason}. Check the network and the address."""


class ModelStalled(ModelError):
    """{provider} has sent nothing for {seconds} seconds. Try again."""


class ModelCutOff(ModelError):
    """The connection to {provider} was lost in the middle of the answer. Try again."""


class LocalMissing(ModelError):
    """The embedded model is not installed yet: {missing}. Type `segue model pull` to download
    it."""


class PullFailed(UserError):
    """The embedded model could not be downloaded: {reason}. Type `segue model pull` to continue
    where it stopped."""


# The demo


class DemoFailed(UserError):
    """The demo failed: {reason}. Type `segue doctor` to check your installation. The demo left
    nothing behind."""


# Commands


class UnknownCommand(UserError):
    """There is no command /{name} here.{hint} Type /help to see all commands."""


class CommandElsewhere(UserError):
    """/{name} works only in {where}. Here, type {instead}."""


# Jobs


class JobNotFound(UserError):
    """There is no job {number}. Type /jobs, or `segue jobs` in a shell, to list yours."""


class BadJob(UserError):
    """That job cannot be scheduled: {reason}. Type `segue jobs add --help` to see how to write
    times."""


# Notes


class NoteError(UserError):
    """That note cannot be saved."""


# Settings


class SettingsError(UserError):
    """Something is wrong with the settings."""


class BadSettings(SettingsError):
    """The settings in {path} cannot be used: {reason}. Fix that, then try again."""


class HistoryUnwritable(SettingsError):
    """The input history cannot be saved: {path} is not writable ({reason}). Make it writable for
    you, or set XDG_STATE_HOME to another folder."""


# What comes in


class BadImage(UserError):
    """That picture cannot be used: {reason}. Send a PNG, JPEG, GIF or WebP of at most {limit}
    megabytes."""


class BadDelivery(UserError):
    """{target!r} is not a place to deliver to. Use origin, local, the name of a platform with a
    home channel, or platform:chat_id."""


class OwnerNotFound(UserError):
    """There is no owner {owner!r}. Check the name."""


class AddressTaken(UserError):
    """The conversation in this chat belongs to another user. Start yours in a direct message."""


class IdentityTaken(UserError):
    """{platform} user {user_id} already belongs to another owner. Type `segue pair revoke` there
    first."""


# The store


class StoreError(UserError):
    """Something is wrong with the store."""


class StoreUncertain(StoreError):
    """The connection to the store {path} was lost while the last step was being saved, so it may or
    may not have been saved. Check before you repeat it."""


class StoreClosed(SegueError):
    """The store was used after it was closed."""
