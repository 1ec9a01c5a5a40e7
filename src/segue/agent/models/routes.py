"""From a model's name to where it is: whom to ask, at which address, with which key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from segue.agent.models.catalog import PROVIDERS, SERVERS, Provider, Server, Wire
from segue.config import Endpoint, Secret, Settings, accounts
from segue.core.errors import BadKey, ForeignServer, ModelUnusable


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The way to one service."""

    name: str
    """The first part of its models' names."""
    title: str
    wire: Wire
    base_url: str
    key: Secret | None
    service: Provider | Endpoint | Server

    @property
    def setting(self) -> str:
        """What a person looks at when the key is not accepted."""
        return self.key.setting if self.key else "its key"

    def secret(self) -> str:
        """The key; BadKey for one that no request could carry; empty when there is none."""
        key = self.key.reveal() if self.key else ""
        if not (key.isascii() and key.isprintable()):
            raise BadKey(provider=self.title, setting=self.setting)
        return key

    def model(self, name: str) -> str:
        """The model that `name` names, or else the usual one, as the service names it."""
        given = name.partition("/")[2]
        if isinstance(self.service, Provider):
            given = self.service.model(given or self.service.default or "")
        if not given:
            reason = (
                f"it names no model; `segue model list {self.name}` shows them, "
                f"`segue model use {self.name}/…` chooses one"
            )
            raise ModelUnusable(model=name, reason=reason)
        return given

    def full_name(self, model: str) -> str:
        """What a person types to choose `model`, which is named as the service names it."""
        if isinstance(self.service, Provider):
            return self.service.shown(model)
        return f"{self.name}/{model}"


def find(name: str, settings: Settings, servers: Iterable[Server] = SERVERS) -> Route:
    """The way to the service that the model `name` (or `name` itself) belongs to.

    An endpoint of the person's own goes before what has the same name here. ModelUnusable when
    there is no such service, or no key for it.
    """
    head = name.partition("/")[0]
    if endpoint := settings.endpoints.get(head):
        return _to_endpoint(endpoint)
    if provider := PROVIDERS.get(head):
        return to_provider(provider, settings, name)
    local = {server.name: server for server in servers}
    if server := local.get(head):
        return to_server(server)
    known = ", ".join((*settings.endpoints, *PROVIDERS, *local))
    reason = f"there is no provider {head!r}; there are {known}, and the model `local`"
    raise ModelUnusable(model=name, reason=reason)


def strangers(server: Server, settings: Settings) -> list[str]:
    """The accounts that listen on the server's port and are neither this one nor trusted."""
    others = {uid for uid in accounts.listeners(server.port) if not accounts.is_ours(uid)}
    return sorted({accounts.name(uid) for uid in others} - set(settings.server_accounts))


def check_account(route: Route, settings: Settings) -> None:
    """Raise ForeignServer if another account has the port of a server on this machine. For every
    use: anyone can take a port that is free. An address that the person named is not checked."""
    if isinstance(route.service, Server) and (found := strangers(route.service, settings)):
        raise ForeignServer(
            provider=route.title,
            place=route.service.place,
            account=" and ".join(found),
            accounts=" ".join((*settings.server_accounts, *found)),
        )


def is_hidden(service: Provider | Server, settings: Settings) -> bool:
    """Whether an endpoint of the person's own has taken its name."""
    return service.name in settings.endpoints


def to_provider(provider: Provider, settings: Settings, name: str = "") -> Route:
    key = settings.keys.get(provider.name)
    elsewhere = settings.openai_url if provider.name == "openai" else None
    if key is None and not elsewhere:  # a server of one's own may want none
        where = " or ".join((*provider.variables, f"keys.{provider.name} in {settings.path}"))
        raise ModelUnusable(
            model=name or provider.name,
            reason=f"there is no key for {provider.title}; set {where}",
        )
    return Route(
        name=provider.name,
        title=provider.title,
        wire=provider.wire,
        base_url=elsewhere or provider.base_url,
        key=key,
        service=provider,
    )


def to_server(server: Server) -> Route:
    return Route(
        name=server.name,
        title=server.title,
        wire=Wire.OPENAI,
        base_url=server.base_url,
        key=None,
        service=server,
    )


def _to_endpoint(endpoint: Endpoint) -> Route:
    return Route(
        name=endpoint.name,
        title=endpoint.name,
        wire=Wire.OPENAI,
        base_url=endpoint.url,
        key=endpoint.key,
        service=endpoint,
    )
