"""Completion in a shell: the scripts that `segue completion` prints, and what they offer.

click computes the completions, and the scripts request them through an environment variable. The
scripts for bash and fish are ours, because click's break on titles: in bash it splits a title at
blanks and treats a star in it as a pattern, in fish it ends a title at its first comma.

Completions use local data only, never the network. Errors yield none: pressing Tab must not report
a broken store. `segue completion` runs whenever a shell starts, so what only Tab needs is imported
by the functions that use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, ZshComplete

from segue.core.errors import SegueError
from segue.core.session import ME
from segue.core.text import one_line

if TYPE_CHECKING:
    from segue.core.session import Session
    from segue.jobs.values import Job
    from segue.store import Store

_SESSIONS = 500
_SECONDS = 2.0
_LATEST = "latest"

_BASH = r"""
# Completion of segue for bash 4.4 or newer.

_segue_completion() {
    local IFS=$'\n' rest=$COMP_LINE word joined="" before="" type value i
    local -a words=()
    # Bash also splits at : and =, which we do not: what stands without a blank is one word.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ -n $word && $rest == "$word"* ]]; then
            before=${words[-1]}
            words[-1]+=$word
        else
            before=""
            words+=("$word")
        fi
        rest=${rest#*"$word"}
    done
    joined=${words[-1]}
    # After one of these characters, bash completes what follows it.
    [[ $word == [:=] ]] && before=$joined

    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                # Within quotes, only what the shell would read there needs a backslash.
                case $joined in
                    \'*) value=${value//\'/\'\\\'\'} ;;
                    \"*) value=$(printf %s "$value" | sed 's/[\\"$`]/\\&/g') ;;
                    *) printf -v value %q "$value" ;;
                esac
                COMPREPLY+=("${value#"$before"}")
                ;;
        esac
    done < <(COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) \
        _SEGUE_COMPLETE=bash_complete "$1" 2>/dev/null)
    # A model's name may go on after a slash.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace
    return 0
}

complete -o nosort -F _segue_completion segue
"""

_FISH = r"""
# Completion of segue for fish.

function _segue_completion
    set -l response (env _SEGUE_COMPLETE=fish_complete COMP_WORDS=(commandline -cp) \
        COMP_CWORD=(commandline -t) segue 2>/dev/null)
    for completion in $response
        set -l metadata (string split -m 1 "," -- $completion)
        switch $metadata[1]
            case dir
                __fish_complete_directories $metadata[2]
            case file
                __fish_complete_path $metadata[2]
            case plain
                echo $metadata[2]
        end
    end
end

complete --no-files --command segue --arguments "(_segue_completion)"
"""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands, session titles, settings and models. To load it, add:

    \b
    bash:  eval "$(segue completion bash)"   in ~/.bashrc
    zsh:   eval "$(segue completion zsh)"    in ~/.zshrc, after compinit
    fish:  segue completion fish | source    in ~/.config/fish/config.fish
    """
    zsh = ZshComplete(ctx.find_root().command, {}, "segue", "_SEGUE_COMPLETE")
    script = {"bash": _BASH, "fish": _FISH}.get(shell) or zsh.source()
    click.echo(script.strip())  # noqa: TID251


# Completions


def sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete session titles, and ids where there is no title. Any id also completes."""
    import asyncio  # noqa: PLC0415

    from segue.cli.common import with_store  # noqa: PLC0415
    from segue.store import sessions as stored_sessions  # noqa: PLC0415

    async def known(store: Store) -> Sequence[Session]:
        async with asyncio.timeout(_SECONDS):
            return await stored_sessions.list_sessions(store, ME, limit=_SESSIONS)

    try:
        found = with_store(known)
    except (SegueError, TimeoutError):
        return []
    names = [one_line(session.title) if session.title else session.id for session in found]
    ids = [session.id for session in found]
    return _fitting(incomplete, [*names, _LATEST]) or _fitting(incomplete, ids)


def jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the numbers of jobs. Their names are shown where a shell shows a description."""
    import asyncio  # noqa: PLC0415

    from segue.cli.common import with_store  # noqa: PLC0415
    from segue.jobs.queries import jobs as stored_jobs  # noqa: PLC0415

    async def known(store: Store) -> Sequence[Job]:
        async with asyncio.timeout(_SECONDS):
            return await stored_jobs.list_jobs(store, ME)

    try:
        found = with_store(known)
    except (SegueError, TimeoutError):
        return []
    numbers = [(str(job.id), one_line(job.name)) for job in found]
    return [CompletionItem(no, help=name) for no, name in numbers if no.startswith(incomplete)]


def targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the places that a job can deliver to, after a comma too."""
    from segue.core.address import Platform  # noqa: PLC0415

    before, comma, _ = incomplete.rpartition(",")
    return _fitting(incomplete, [f"{before}{comma}{name}" for name in ("all", *Platform)])


def zones(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of time zones."""
    import zoneinfo  # noqa: PLC0415

    return _fitting(incomplete, sorted(zoneinfo.available_timezones()))


def settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete setting names, including those of endpoints in the settings file."""
    from segue import config  # noqa: PLC0415

    return _fitting(incomplete, config.schema.every(_endpoints()))


def values(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete values of the setting named before, where the values are known."""
    from segue import config  # noqa: PLC0415

    name = ctx.params.get("name") or ""
    if name == "model":
        return models(ctx, param, incomplete)
    try:
        return _fitting(incomplete, config.schema.leaf(name).choices)
    except SegueError:
        return []


def models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete model names: each provider's default, the embedded model, and other services."""
    from segue.agent.models.catalog import LOCAL, PROVIDERS, SCRIPTED  # noqa: PLC0415

    usual = {p.name: f"{p.name}/{p.default}" for p in PROVIDERS.values() if p.default}
    named = [usual.get(name, f"{name}/") for name in _services()]
    return _fitting(incomplete, [LOCAL, *named, SCRIPTED])


def providers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the services that can list their models."""
    from segue.agent.models.catalog import LOCAL  # noqa: PLC0415

    return _fitting(incomplete, [*_services(), LOCAL])


def _services() -> list[str]:
    from segue.agent.models.catalog import PROVIDERS, SERVERS  # noqa: PLC0415

    return list(dict.fromkeys([*_endpoints(), *PROVIDERS, *(server.name for server in SERVERS)]))


def _endpoints() -> list[str]:
    from segue import config  # noqa: PLC0415

    try:
        return list(config.load().endpoints)
    except SegueError:
        return []


def _fitting(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    """Return the names that start with `incomplete`. If there are none, ignore case."""
    # Not both at once: if candidates differ in case, a shell removes typed letters.
    known = list(names)
    exact = [name for name in known if name.startswith(incomplete)]
    wanted = incomplete.casefold()
    found = exact or [name for name in known if name.casefold().startswith(wanted)]
    return [CompletionItem(name) for name in found]
