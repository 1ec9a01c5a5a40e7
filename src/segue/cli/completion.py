"""`segue completion`: scripts for completion in a shell.

click computes the completions, and the scripts request them through an environment variable. The
scripts for bash and fish are ours, because click's break on titles: in bash it splits a title at
blanks and treats a star in it as a pattern, in fish it ends a title at its first comma.
"""

from __future__ import annotations

import click
from click.shell_completion import ZshComplete

_PROGRAM = "segue"
_VARIABLE = "_SEGUE_COMPLETE"

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
    # At such a character, bash completes what comes after it.
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
    """Print a script that lets SHELL complete commands, session titles, settings and models.

    \b
    bash:  eval "$(segue completion bash)"   in ~/.bashrc
    zsh:   eval "$(segue completion zsh)"    in ~/.zshrc, after compinit
    fish:  segue completion fish | source    in ~/.config/fish/config.fish
    """
    click.echo(_script(shell, ctx.find_root().command).strip())  # noqa: TID251


def _script(shell: str, program: click.Command) -> str:
    if shell == "zsh":
        return ZshComplete(program, {}, _PROGRAM, _VARIABLE).source()
    return _BASH if shell == "bash" else _FISH
