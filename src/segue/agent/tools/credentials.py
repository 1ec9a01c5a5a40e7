"""Common locations of keys and passwords: files that the agent does not read without asking."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from segue.agent.tools.search import PrivateFiles

_SYSTEM = (
    *("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh"),
    *("/etc/ssl/private", "/etc/wireguard", "/etc/NetworkManager/system-connections"),
    *("/run/secrets", "/var/run/secrets"),
    "/proc",  # the environment and memory of other processes
)
_HOME = (
    # Keys and logins of tools
    *(".ssh", ".gnupg", ".pki", ".netrc", ".pgpass", ".my.cnf", ".password-store"),
    *(".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli"),
    *(".aws", ".azure", ".boto", ".s3cfg", ".config/gcloud", ".config/rclone", ".oci"),
    *(".kube", ".docker", ".terraform.d", ".vault-token", ".config/op", ".config/sops"),
    *(".npmrc", ".yarnrc.yml", ".pypirc", ".config/pypoetry/auth.toml", ".m2/settings.xml"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".composer/auth.json"),
    *(".local/share/keyrings", ".local/share/kwalletd", ".config/Bitwarden", ".config/KeePassXC"),
    *(".config/1Password", ".electrum", ".bitcoin", ".ethereum", ".config/NetworkManager"),
    # Command history
    *(".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".python_history"),
    *(".psql_history", ".mysql_history", ".sqlite_history"),
    # Cookies and passwords in browsers and mail programs
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/vivaldi"),
    *(".config/BraveSoftware", ".config/microsoft-edge", ".config/opera", ".var/app", "snap"),
    *("Library/Keychains", "Library/Cookies", "Library/Mail", "Library/Safari"),
    *("Library/Application Support/Google", "Library/Application Support/BraveSoftware"),
    *("Library/Application Support/Microsoft Edge", "Library/Application Support/Firefox"),
)
_NAMES = (
    *(".env", ".env.*", "*.env", ".netrc", "_netrc", ".pgpass", ".htpasswd", ".git-credentials"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.gpg"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
)
_HARMLESS = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub")


def private(home: Path, ours: Iterable[Path] = ()) -> PrivateFiles:
    """The private files of the user with this home folder. `ours` are Segue's own files."""
    places = (*map(Path, _SYSTEM), *(home / place for place in _HOME), *ours)
    return PrivateFiles(
        places=frozenset(map(_plain, places)),
        names=frozenset(_NAMES),
        harmless=frozenset(_HARMLESS),
    )


def but(private: PrivateFiles, folder: Path) -> PrivateFiles:
    """Exclude `folder`, which the user has opened to the agent."""
    return private._replace(public=frozenset({_plain(folder)}))


def _plain(path: Path) -> str:
    return os.path.realpath(path).casefold()
