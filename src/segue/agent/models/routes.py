"""Finds the service for a model name: its API, its address and its key."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from segue.agent.models.catalog import PROVIDERS, SERVERS, ApiFormat, ModelServer, Provider
from segue.config import KEY_VARIABLES, Endpoint, Settings
from segue.core.errors import BadKey, ForeignServer, ModelError
from segue.core.secret import Secret
from segue.system import accounts


class Route(Struct, frozen=True, kw_only=True):
    """How to reach one service."""

    service: Provider | Endpoint | ModelServer
    base_url: str
    key: Secret | None = None

    @property
    def name(self) -> str:
        """The first part of its models' names."""
        return self.service.name

    @property
    def title(self) -> str:
        return self.name if isinstance(self.service, Endpoint) else self.service.title

    @property
    def wire(self) -> ApiFormat:
        return self.service.wire if isinstance(self.service, Provider) else ApiFormat.OPENAI

    @property
    def setting(self) -> str:
        """Where the key was set, for error messages."""
        return self.key.setting if self.key else "its key"

    def secret(self) -> str:
        """The key, or an empty string if there is none. Raise BadKey if no request can carry it."""
        key = self.key.reveal() if self.key else ""
        if not (key.isascii() and key.isprintable()):
            raise BadKey(provider=self.title, setting=self.setting)
        return key

    def model(self, name: str) -> str:
        """The service's own name for the model `name`, or for the default model without one. Raise
        ModelError if there is neither."""
        given = name.partition("/")[2]
        if isinstance(self.service, Provider):
            given = self.service.model(given or self.service.default or "")
        if not given:
            reason = (
                f"it names no model; `segue model list {self.name}` shows them, "
                f"`segue model use {self.name}/…` chooses one"
            )
            raise _unusable(name, reason)
        return given

    def full_name(self, model: str) -> str:
        """The name that the user types to choose `model`, given the service's own name for it."""
        if isinstance(self.service, Provider):
            return self.service.shown(model)
        return f"{self.name}/{model}"


def find(name: str, settings: Settings, servers: Iterable[ModelServer] = SERVERS) -> Route:
    """Find the route for a model name (or for a service name alone).

    An endpoint that the user configured takes precedence over a built-in service of the same name.
    Raise ModelError if there is no such service, or no key for it.
    """
    head = name.partition("/")[0]
    if endpoint := settings.endpoints.get(head):
        return Route(service=endpoint, base_url=endpoint.url, key=endpoint.key)
    if provider := PROVIDERS.get(head):
        return _to_provider(provider, settings, name)
    local = {server.name: server for server in servers}
    if server := local.get(head):
        return to_server(server)
    known = ", ".join((*settings.endpoints, *PROVIDERS, *local))
    reason = f"there is no provider {head!r}; there are {known}, and the model `local`"
    raise _unusable(name, reason)


def strangers(server: ModelServer, settings: Settings) -> list[str]:
    """The accounts that listen on the server's port and are neither ours nor trusted."""
    others = {uid for uid in accounts.listeners(server.port) if not accounts.is_ours(uid)}
    return sorted({accounts.name(uid) for uid in others} - set(settings.server_accounts))


def check_account(route: Route, settings: Settings) -> None:
    """Raise ForeignServer if another account listens on the port of a server on this machine.

    Call this before every use, because anyone can take a free port. Addresses that the user
    configured are not checked.
    """
    if isinstance(route.service, ModelServer) and (found := strangers(route.service, settings)):
        raise ForeignServer(
            provider=route.title,
            place=route.service.place,
            account=" and ".join(found),
            accounts=" ".join((*settings.server_accounts, *found)),
        )


def is_hidden(service: Provider | ModelServer, settings: Settings) -> bool:
    """True if an endpoint that the user configured has the same name."""
    return service.name in settings.endpoints


def _to_provider(provider: Provider, settings: Settings, name: str) -> Route:
    key = settings.keys.get(provider.name)
    elsewhere = settings.openai_url if provider.name == "openai" else None
    if key is None and not elsewhere:  # a custom server may need no key
        variables = KEY_VARIABLES[provider.name]
        where = " or ".join((*variables, f"keys.{provider.name} in {settings.path}"))
        reason = f"there is no key for {provider.title}; set {where}"
        raise _unusable(name, reason)
    return Route(service=provider, base_url=elsewhere or provider.base_url, key=key)


def _unusable(name: str, reason: str) -> ModelError:
    return ModelError(
        f"The model {name!r} cannot be used: {reason}. Type `segue model` to see the options."
    )


def to_server(server: ModelServer) -> Route:
    return Route(service=server, base_url=server.base_url)
