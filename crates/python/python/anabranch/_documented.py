"""Documentation of fields: a text is written once, below its field, where editors find it. This module shows it in `help` as well."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")

#: The width of the texts in `help`, which indents them further.
WIDTH = 100


@cache
def _classes(module: str) -> dict[str, dict[str, str]]:
    """The texts of the fields of each class of a module. None where the source is not installed."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    found: dict[str, dict[str, str]] = {}
    for kind in tree.body:
        if isinstance(kind, ast.ClassDef):
            texts = found[kind.name] = {}
            for field, text in zip(kind.body, kind.body[1:]):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                    if isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
                        texts[field.target.id] = " ".join(text.value.value.split())
    return found


def field_texts(kind: type[Any]) -> dict[str, str]:
    """The documentation of each field of a class."""
    return _classes(kind.__module__).get(kind.__name__, {})


def _indented(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


class _Documentation:
    """The `__doc__` of a class. It is made when something asks for it: a program that shows no help does not parse the source."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind
        self._text = inspect.cleandoc(kind.__doc__ or "")

    def __get__(self, instance: object, owner: type[Any] | None = None) -> str:
        texts = field_texts(self._kind)
        fields = "\n".join(f"{name}\n{_indented(text)}" for name, text in texts.items())
        return f"{self._text}\n\nFields:\n\n{fields}" if texts else self._text


def documented(kind: type[T]) -> type[T]:
    """Adds the texts of the fields of a class to its documentation."""
    kind.__doc__ = cast(str, _Documentation(kind))
    return kind
