"""All errors, sorted by who must act.

    SegueError
    ├── UserError                 the user can fix it; the message says what to do next
    │   ├── SessionError          SessionNotFound, AmbiguousSession, SessionHeld, SessionMoved,
    │   │                         SessionElsewhere, SessionBusy, SessionChanged, MessageTaken,
    │   │                         NothingSaid, NothingToUndo, NothingToRestore,
    │   │                         NothingToCompress
    │   ├── TitleError            TitleEmpty, TitleTaken
    │   ├── HandoffError          UnknownPlatform, PlatformNotSetUp,
    │   │                         PageNotServed, NoHomeChannel, NoGateway, HandoffInFlight,
    │   │                         HeldElsewhere, TurnRunning, UnknownChat, OwnerAway,
    │   │                         AudienceGrown
    │   ├── PlatformError         BadAdapter, LibraryMissing, ValuesMissing, NoTerminal,
    │   │   │                     SetupFailed, NoSuchUser, DeliveryFailed, MustWait
    │   │   └── ConnectFailed     SetupNeeded
    │   ├── AccessError           PairingRefused, NotPaired, ApprovalOver,
    │   │                         ApprovalUnknown, ApprovalUnnamed,
    │   │                         ApprovalNotShown, ApprovalTooLong
    │   ├── GatewayError          GatewayRunning, GatewayNotRunning, GatewayFailed,
    │   │                         GatewayElsewhere, GatewayStuck, PlatformLost, NoGatewayLog,
    │   │                         NoPage, NoNetwork
    │   ├── ModelError            NoModel, ModelUnusable, ForeignServer, BadKey, UnknownModel,
    │   │                         NoCredit, ContextTooLong, ModelRefused, ModelBusy,
    │   │                         ModelServerError, ModelOffline, ModelStalled, ModelCutOff,
    │   │                         LocalMissing, LocalFailed
    │   ├── CommandError          UnknownCommand, CommandElsewhere, BadCommand
    │   ├── JobError              JobNotFound, BadJob, TooManyJobs, JobBusy, JobChanged,
    │   │                         ConditionFailed, NoGatewayForJobs
    │   ├── NoteError             NoteNotFound, NoteEmpty, NoteTooLong, TooManyNotes
    │   ├── SettingsError         SettingsUnwritable, HistoryUnwritable, UnknownSetting,
    │   │   │                     SettingRefused, NoEditor
    │   │   └── BadSettings       SettingsBroken
    │   ├── BackupError           BackupExists, BackupUnwritable, BackupFolderMissing,
    │   │                         BackupUnreadable, NotABackup, BackupDamaged, BackupNewer,
    │   │                         BackupEncrypted, WrongPassphrase, BackupLibraryMissing,
    │   │                         BackupOfOtherEngine, NothingToBackUp, NewerData, StoreRunning
    │   ├── TooManyFiles, DemoFailed, PullFailed, BadImage, MessageTooLong, BadImport, BadDelivery,
    │   │   OwnerNotFound, IdentityTaken, AddressTaken
    │   └── StoreError            BadStoreUrl, StoreFolderMissing, StoreMissing, StoreForeign,
    │                             StoreNewer, StoreInUse, StoreSchemaWrong, StoreCorrupt,
    │                             StoreReadOnly, StoreForbidden, StoreStandby, StoreFull,
    │                             StoreBusy, StoreUnreachable, StoreEncoding,
    │                             StoreDriverMissing, StoreTooOld, StoreFailed, StoreUncertain
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


class SessionBusy(SessionError):
    """A handoff of this session is in progress. Wait for it to finish, or press Ctrl-C in the
    terminal that started it."""


class SessionChanged(SessionError):
    """The session continued elsewhere during the handoff, so it was not moved. Hand it off again
    from there."""


class MessageTaken(SessionError):
    """That message is already being answered. Wait for the answer."""


class NothingSaid(SessionError):
    """There is no session here yet. Send a message to start one, or type /resume to continue an
    earlier one here."""


class NothingToUndo(SessionError):
    """There is no earlier message of yours to undo."""


class NothingToRestore(SessionError):
    """There is nothing to redo: no messages were undone, or the conversation has continued
    since."""


class NothingToCompress(SessionError):
    """There is nothing to compress: the part of the conversation that is not summarised yet is too
    short."""


# Titles


class TitleError(UserError):
    """That title cannot be used."""


class TitleEmpty(TitleError):
    """A title needs at least one visible character. Type /title followed by a name."""


class TitleTaken(TitleError):
    """You already have a session called “{title}”. Try “{suggestion}”."""


# Handoffs


class HandoffError(UserError):
    """The handoff could not be done."""


class UnknownPlatform(HandoffError):
    """There is no platform {platform!r} to hand off to. Try {suggestion}."""


class PlatformNotSetUp(HandoffError):
    """The running gateway does not serve {platform}. Type `segue setup {platform}`."""


class PageNotServed(HandoffError):
    """The running gateway does not serve the web page. Type `segue config set web.enabled true`,
    then `segue gateway stop` and `segue gateway start`."""


class NoHomeChannel(HandoffError):
    """No home channel on {platform} yet. Send /sethome in the chat that should receive handoffs. If
    the bot does not answer there, type `segue pair` first."""


class NoGateway(HandoffError):
    """No gateway is running, so the session cannot move to {platform}. Type `segue gateway start`
    in another terminal, then /handoff {platform} again."""


class HandoffInFlight(HandoffError):
    """This session is already being handed off to {platform}. Wait for that to finish, or press
    Ctrl-C in the terminal that started it."""


class HeldElsewhere(HandoffError):
    """This session is open in {holder}. Close it there first, add --wait to move it when the agent
    has finished its step there, or add --now to stop the agent and move it."""


class TurnRunning(HandoffError):
    """Something is still running here. Wait for it or press Ctrl-C, then type /handoff again."""


class UnknownChat(HandoffError):
    """{chat!r} is not one of your chats on {platform}. Send a message to the bot there first, or
    leave out the chat to use your home channel."""


class OwnerAway(HandoffError):
    """You are not in {chat} any more, where others may read. Send /sethome in another chat, or join
    that one again."""


class AudienceGrown(HandoffError):
    """More can read {chat} than when you made it your home channel: {growth}. Send /sethome there
    if that is right, or send it in another chat."""


# Platforms


class PlatformError(UserError):
    """Something went wrong on a platform."""


class BadAdapter(PlatformError):
    """The adapter for {platform} cannot be loaded: {reason}. Check platforms.{platform}.adapter
    with `segue config show`, or set platforms.{platform}.enabled to false."""


class LibraryMissing(PlatformError):
    """{platform} needs packages that are not installed. Type `segue setup {platform} --yes`, which
    installs them, or `make extra NAME={extra}` in a clone of the project."""


class ValuesMissing(PlatformError):
    """{platform} has no value for {settings}. Type `segue setup {platform}`, or set {variables}."""


class NoTerminal(PlatformError):
    """{platform} needs {labels}, and there is no terminal to ask on. Add {options}; the value - is
    read from standard input."""


class SetupFailed(PlatformError):
    """{platform} is not set up yet: {reason}. Fix that, then type `segue setup {platform}`
    again."""


class NoSuchUser(PlatformError):
    """There is no {platform} user {user_id}, so nothing was changed. Check --owner, or type `segue
    setup {platform}` without it to pair with a code."""


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


class MustWait(PlatformError):
    """{platform} asks to wait until {until}, longer than a handoff may take: {reason}. The session
    stayed where it was. Hand it off again then."""


# Access


class AccessError(UserError):
    """You are not allowed to do that."""


class PairingRefused(AccessError):
    """That code is not valid: it was used already, or it has expired. Type `segue pair` for a new
    one."""


class NotPaired(AccessError):
    """{platform} user {user_id!r} is not paired with you. Type `segue pair list` to see your paired
    accounts."""


class ApprovalOver(AccessError):
    """That question is closed: {reason}. Send your request again if you still want it done."""


class ApprovalUnknown(AccessError):
    """There is no question {number} in this chat. Type /show to see the one that is open here, or
    answer it in the chat that asked it."""


class ApprovalUnnamed(AccessError):
    """Give the number of the question. Type /approve {number} to allow it, /deny {number} to refuse
    it, or /show {number} to see it again."""


class ApprovalNotShown(AccessError):
    """Question {number} has not been delivered in full yet. Wait until you see all of it, then
    answer it."""


class ApprovalTooLong(AccessError):
    """Question {number} has {characters:,} characters, too many to show here, so it cannot be
    allowed here. Type /deny {number}, or take the conversation to a terminal."""


# The gateway


class GatewayError(UserError):
    """Something is wrong with the gateway."""


class GatewayRunning(GatewayError):
    """{name} already serves {platforms}. Type `segue gateway status` to look at it, or `segue
    gateway stop` to stop it first."""


class GatewayNotRunning(GatewayError):
    """No gateway is running. Type `segue gateway start`."""


class GatewayFailed(GatewayError):
    """The gateway did not start: {reason}. Type `segue gateway logs` to see more."""


class GatewayElsewhere(GatewayError):
    """{name} cannot be stopped from here: it belongs to {where}. Type `segue gateway stop`
    there."""


class GatewayStuck(GatewayError):
    """{name} did not stop within {seconds:.0f} seconds. Type `segue gateway logs` to see what it is
    doing, or `kill -9 {pid}`. The next gateway continues its work."""


class PlatformLost(GatewayError):
    """Another gateway serves {platform} now. Type `segue gateway status` to see which."""


class NoGatewayLog(GatewayError):
    """There is no log at {path} yet. Type `segue gateway start` to start a gateway, which creates
    it."""


class NoPage(GatewayError):
    """The web page is disabled, so it cannot be served to the local network. Type `segue config set
    web.enabled true`, then try again."""


class NoNetwork(GatewayError):
    """This machine is in no local network, so a phone cannot reach the web page. Type the command
    without --lan, or connect the machine to a network."""


# Models


class ModelError(UserError):
    """{provider} answered with an error: {reason}. Try again, or type /model to choose another
    model."""


class NoModel(ModelError):
    """No model is available yet: {reason}. Type `segue model` to see the options."""


class ModelUnusable(ModelError):
    """The model {model!r} cannot be used: {reason}. Type `segue model` to see the options."""


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


class LocalFailed(ModelError):
    """The embedded model did not start: {reason}. See {log}, or type /model to choose another
    model."""


class PullFailed(UserError):
    """The embedded model could not be downloaded: {reason}. Type `segue model pull` to continue
    where it stopped."""


# The demo


class DemoFailed(UserError):
    """The demo failed: {reason}. Type `segue doctor` to check your installation. The demo left
    nothing behind."""


# Commands


class CommandError(UserError):
    """That command does not work."""


class UnknownCommand(CommandError):
    """There is no command /{name} here.{hint} Type /help to see all commands."""


class CommandElsewhere(CommandError):
    """/{name} works only in {where}. Here, type {instead}."""


class BadCommand(CommandError):
    """That does not work: {reason}. Type {usage}."""


# Jobs


class JobError(UserError):
    """Something is wrong with this job."""


class JobNotFound(JobError):
    """There is no job {number}. Type /jobs, or `segue jobs` in a shell, to list yours."""


class BadJob(JobError):
    """That job cannot be scheduled: {reason}. Type `segue jobs add --help` to see how to write
    times."""


class TooManyJobs(JobError):
    """You already have {limit} jobs. Type `segue jobs` to list them, and delete one that you no
    longer need."""


class JobBusy(JobError):
    """Job {number} is running now. Try again when it is done: `segue jobs show {number}` shows its
    runs."""


class JobChanged(JobError):
    """Job {number} was changed in the meantime, so nothing was done. Type /jobs {number} to look at
    it, then try again."""


class ConditionFailed(JobError):
    """Could not check whether {condition} ({reason}). Try it yourself, or type `segue jobs edit
    --help` to see how to change the condition."""


class NoGatewayForJobs(JobError):
    """No gateway is running, so no job can run. Type `segue gateway start`, then try again."""


# Notes


class NoteError(UserError):
    """That note cannot be saved."""


class NoteNotFound(NoteError):
    """There is no note {number}. Type `segue memory` to see yours."""


class NoteEmpty(NoteError):
    """A note needs at least one visible character. Give it a text."""


class NoteTooLong(NoteError):
    """That note has {size} characters; the limit is {limit}, because the agent reads all notes in
    every session. Make it shorter."""


class TooManyNotes(NoteError):
    """You already have {limit} notes, which is the limit, because the agent reads all notes in
    every session. Type `segue memory` and remove one first."""


# Settings


class SettingsError(UserError):
    """Something is wrong with the settings."""


class BadSettings(SettingsError):
    """The settings in {path} cannot be used: {reason}. Fix that, then try again."""


class SettingsUnwritable(SettingsError):
    """The settings in {path} cannot be written: {reason}. Make the file and its folder writable for
    you."""


class HistoryUnwritable(SettingsError):
    """The input history cannot be saved: {path} is not writable ({reason}). Make it writable for
    you, or set XDG_STATE_HOME to another folder."""


class UnknownSetting(SettingsError):
    """There is no setting {name!r}{hint}. Type `segue config show` to see all settings."""


class SettingRefused(SettingsError):
    """Nothing was changed: {reason}. Type `segue config show` to see the current settings."""


class SettingsBroken(BadSettings):
    """Nothing was changed: {path} has an error already: {reason}. Type `segue config edit` to fix
    it."""


class NoEditor(SettingsError):
    """{reason}. Set EDITOR to your editor, or type `segue config set`."""


# What comes in


class BadImage(UserError):
    """That picture cannot be used: {reason}. Send a PNG, JPEG, GIF or WebP of at most {limit}
    megabytes."""


class MessageTooLong(UserError):
    """That message has {size:,} bytes; the limit is {limit:,}. Send it as a file, or in parts."""


class BadImport(UserError):
    """Line {line} of the import is not a message of a Segue export: {reason}. Nothing was imported.
    Fix that line, then try again."""


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


class BadStoreUrl(StoreError):
    """{url!r} is not a store. Use sqlite:///absolute/path.db or postgresql://user@host/database."""


class StoreFolderMissing(StoreError):
    """The folder {folder} does not exist. Type `mkdir -p -m 700 {folder}`, or set SEGUE_STORE to
    another path."""


class StoreMissing(StoreError):
    """The store {path} is missing, but it existed before. Restore it, or remove {marker} to start
    with an empty one."""


class StoreForeign(StoreError):
    """{path} is not a Segue store. Nothing was changed in it. Set SEGUE_STORE to another path."""


class StoreNewer(StoreError):
    """The store was written by a newer version of Segue (schema {found}; this version supports
    {known}). Nothing was changed. Update Segue."""


class StoreInUse(StoreError):
    """An older version of Segue uses the store {path}, and cannot use it any more once this version
    has upgraded it (from schema {found} to {known}). Nothing was changed. Stop it, then try again.
    {running} {way_out}."""


class StoreSchemaWrong(StoreError):
    """The schema version of the store {path} is {found}, which is not true: {reason}. Nothing was
    changed. Type `segue restore FILE` to restore a backup, or set SEGUE_STORE to another store."""


class StoreCorrupt(StoreError):
    """The store {path} is damaged: {reason}. Nothing was repaired. Stop Segue, then type
    `segue restore FILE` to restore a backup; the damaged store is kept."""


class StoreReadOnly(StoreError):
    """The store {path} cannot be written: {reason}. Make the file and its folder writable for you,
    or set SEGUE_STORE to another path."""


class StoreForbidden(StoreError):
    """The role {role} lacks a right on the database {path}: {reason}. Let an administrator, or the
    owner of the database, type `{command}`."""


class StoreStandby(StoreError):
    """The database {path} cannot be written: {reason}. If it is a standby server, set SEGUE_STORE
    to the primary one. If not, let an administrator type `{command}`."""


class StoreFull(StoreError):
    """No space is left for the store {path}. Everything saved so far is intact. Free some space,
    then try again."""


class StoreBusy(StoreError):
    """Another program has kept the store {path} locked for too long. Close that program, then try
    again."""


class StoreUnreachable(StoreError):
    """The database {path} does not answer: {reason}. Check that it is running, and that the address
    and the password are right."""


class StoreEncoding(StoreError):
    """The database {path} has the encoding {encoding}, which cannot store every character. Type
    `createdb --encoding=UTF8 --template=template0 segue`, and set SEGUE_STORE to that database."""


class StoreDriverMissing(StoreError):
    """Stores on PostgreSQL need a package that is not installed. Type `make extra NAME=postgres` in
    the project folder."""


class StoreTooOld(StoreError):
    """SQLite {found} can damage a database that several programs share. Segue needs {needed} or
    newer. Reinstall Segue with its own packages."""


class StoreFailed(StoreError):
    """The store {path} failed: {reason}. The last step was not saved. Try it again."""


class StoreUncertain(StoreError):
    """The connection to the store {path} was lost while the last step was being saved, so it may or
    may not have been saved. Check before you repeat it."""


# Backups


class BackupError(UserError):
    """Something is wrong with this backup."""


class BackupExists(BackupError):
    """{path} exists already. Nothing was changed. Give another name."""


class BackupUnwritable(BackupError):
    """The backup {path} cannot be written: {reason}. Nothing was changed. Free some space, or name
    a file in a folder that you can write to."""


class BackupFolderMissing(BackupError):
    """The backup {path} cannot be written: there is no folder {folder}. Nothing was changed. Type
    `mkdir -p {folder}`, or name a file in another folder."""


class BackupUnreadable(BackupError):
    """The backup {path} cannot be read: {reason}. Nothing was changed. Check its name."""


class NotABackup(BackupError):
    """{path} is not a backup of Segue. Nothing was changed. Give the name of a file
    that `segue backup` made."""


class BackupDamaged(BackupError):
    """The backup {path} is damaged: {reason}. Nothing was changed. Use another one, or copy it
    again from where you keep it."""


class BackupNewer(BackupError):
    """The backup {path} was made by a newer version of Segue ({program}). Nothing was changed.
    Update Segue, then try again."""


class BackupEncrypted(BackupError):
    """The backup {path} is encrypted, and there is no terminal to ask for its passphrase. Send it
    to standard input."""


class WrongPassphrase(BackupError):
    """The backup {path} cannot be decrypted: the passphrase is wrong, or the file is damaged.
    Nothing was changed. Try again."""


class BackupLibraryMissing(BackupError):
    """Encrypted backups need a package that is not installed. Type `make extra NAME=backup` in the
    project folder."""


class BackupOfOtherEngine(BackupError):
    """The backup {path} holds a store on {found}, but {store} is one on {wanted}. Nothing was
    changed. Set SEGUE_STORE to a store on {found}."""


class NothingToBackUp(BackupError):
    """There is no store at {store} yet. Start a conversation first, or set SEGUE_STORE."""


class NewerData(BackupError):
    """The store {store} is newer than the backup: it has changes that the backup does not have. It
    was last used at {here}, the backup's at {there}. Nothing was changed. Type `segue restore
    --force {path}` to replace it: it is kept beside the new one."""


class StoreRunning(BackupError):
    """The store {store} is in use. Nothing was changed. Stop every Segue program, then try again.
    {running} {way_out}."""


class TooManyFiles(UserError):
    """Too many files are open. Type `ulimit -n 4096`, or close programs that use many, then try
    again."""


class StoreClosed(SegueError):
    """The store was used after it was closed."""
