"""Files of keys."""

from __future__ import annotations

import os

from anabranch import _native


def generate_key(file: str | os.PathLike[str]) -> str:
    """Writes a new private key to `file`, which only its owner may read, and the public key to the same name with `.pub`.

    Returns the public key. Files that exist are not replaced: they raise `FileExistsError`. `anabranch keygen` writes the same files.
    """
    private = os.fspath(file)
    public = private + ".pub"
    if os.path.exists(public):
        raise FileExistsError(f"{public} exists: choose another name, or remove it")
    secret, known = _native.generate_key()
    for name, text, mode in ((private, secret, 0o600), (public, f"{known}\n", 0o644)):
        with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="ascii") as out:
            out.write(text)
    return known
