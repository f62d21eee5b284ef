"""The texts that `help` and editors show, and what they say about the Rust library."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import pydoc
import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, cast

import anabranch
import pytest
from anabranch import _events, _native
from anabranch._documented import field_texts

PACKAGE = Path(__file__).parent.parent
STATISTICS = ["Counters", "Extensions", "PathStats", "AssociationStats", "StreamStats"]
SETTINGS = field_texts(anabranch.Settings)
PLAIN = [kind for kind in vars(anabranch).values() if dataclasses.is_dataclass(kind)]


def helps(thing: object) -> str:
    """The text of `help`."""
    return pydoc.render_doc(thing, renderer=cast(Any, pydoc).plaintext)


def test_help_begins_with_a_program_of_ten_lines(tmp_path: Path) -> None:
    text = helps(anabranch)
    assert anabranch.__doc__ is not None
    program = textwrap.dedent(re.findall(r"::\n\n((?:    .*\n|\n)*)", anabranch.__doc__)[0])
    assert len([line for line in program.splitlines() if line]) <= 10
    before = text[: text.index("PACKAGE CONTENTS")]
    assert [line for line in program.splitlines() if line.strip() not in before] == []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = tmp_path / "program.py"
    file.write_text(program.replace("9899", str(port)), encoding="utf-8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "b'at 52.52, 13.41'\n"), done.stderr


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_every_field_has_a_text_in_help(kind: type[Any]) -> None:
    texts = field_texts(kind)
    assert list(texts) == [field.name for field in dataclasses.fields(kind)]
    shown = " ".join(helps(kind).replace(" |  ", " ").split())
    for name, text in texts.items():
        assert text.endswith((".", ")")) and f" {name} {text}" in shown, (name, text)
    assert kind.__doc__ is not None and not kind.__doc__.startswith(f"{kind.__name__}(")


def rust_texts(kind: str) -> dict[str, str]:
    """The documentation of the fields of a struct in Rust, in words of Python."""
    source = (PACKAGE.parent / "proto/src/stats.rs").read_text(encoding="utf-8")
    found = re.search(rf"pub struct {kind} {{\n(.*?)^}}", source, re.DOTALL | re.MULTILINE)
    assert found is not None
    texts = {}
    for lines, name, of in re.findall(r"((?:^    ///.*\n)+)    pub (\w+): (.*),$", found[1], re.MULTILINE):
        text = " ".join(line.strip().removeprefix("///").strip() for line in lines.splitlines())
        text = re.sub(r"\[`crate::SendOptions::(\w+)`\]", r"`\1` of `send`", text)
        text = re.sub(r" \(\[`crate::[^`]+`\]\)", "", text).replace("`usize::MAX`", "`None`")
        texts[name] = text + (" In seconds." if "Duration" in of else "")
    return texts


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_have_the_texts_of_the_library(name: str) -> None:
    texts = field_texts(getattr(anabranch, name))
    theirs = rust_texts(name)
    assert texts and texts == {field: theirs[field] for field in texts}


def value(text: str) -> Any:
    return math.inf if text == "inf" else ast.literal_eval(text)


def test_the_documented_defaults_are_those_of_the_library() -> None:
    without = {"initial_window", "low_priority_delay", "local_addresses", "path_pairs", "selective_forward_tsn"}
    documented = {name: re.findall(r"[Dd]efault `([^`]+)`", text) for name, text in SETTINGS.items()}
    assert {name for name, found in documented.items() if not found} == without
    for name, found in documented.items():
        # A setting of BBR, which is not the default.
        if found and name != "tolerate_random_loss":
            settings = anabranch.Settings(**{name: value(found[0])})
            assert _native.is_default(settings.changed()), (name, found)
    assert not _native.is_default(anabranch.Settings(send_buffer=5).changed())


async def is_accepted(name: str, setting: Any) -> bool:
    try:
        async with await anabranch.bind("127.0.0.1:0", settings=anabranch.Settings(**{name: setting})):
            return True
    except anabranch.SettingError as error:
        assert name.split("_")[-1] in str(error), error
        return False


async def test_the_documented_ranges_are_those_of_the_library() -> None:
    ranges = {name: re.findall(r"Range `([^`]+)` to `([^`]+)`", text) for name, text in SETTINGS.items()}
    assert len([name for name, found in ranges.items() if found]) == 14
    for name, found in ranges.items():
        for text in found:
            least, most = map(value, text)
            step = 0.001 if isinstance(most, float) else 1
            accepted = [await is_accepted(name, at) for at in (least - step, least, most, most + step)]
            assert accepted == [False, True, True, False], (name, accepted)
    least = {name: re.findall(r"At least `([0-9_.]+)`", text) for name, text in SETTINGS.items()}
    for name, (one,) in ((name, found) for name, found in least.items() if found):
        assert [await is_accepted(name, at) for at in (value(one) - 1, value(one))] == [False, True], name
    for name in (name for name, text in SETTINGS.items() if "Longer than 0" in text):
        assert not await is_accepted(name, 0), name


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"send_buffer": "large"}, "send_buffer cannot be 'large': "),
        ({"preset": 5}, "preset cannot be 5: "),
        ({"ecn": "yes"}, "ecn cannot be 'yes': "),
        ({"congestion_control": "bbr", "tolerate_random_loss": 3}, "tolerate_random_loss cannot be 3: "),
        ({"local_addresses": "127.0.0.1"}, "local_addresses cannot be '127.0.0.1': give a list of texts"),
        ({"rto_min": "1s"}, "rto_min cannot be '1s': give a number of seconds, or a timedelta"),
        ({"local_addresses": [5]}, "local_addresses cannot have 5, of the type int: give texts"),
        ({"path_pairs": ("127.0.0.1", "127.0.0.2")}, "path_pairs cannot have '127.0.0.1': give pairs of a local address and "),
        ({"path_pairs": [("127.0.0.1", 5)]}, "path_pairs cannot have ('127.0.0.1', 5): give pairs of "),
    ],
)
async def test_a_setting_of_a_wrong_type_is_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(text)}"):
        await anabranch.bind("127.0.0.1:0", settings=anabranch.Settings(**settings))


def test_each_event_of_the_native_part_has_a_class() -> None:
    source = (PACKAGE / "src/facts.rs").read_text(encoding="utf-8")
    functions = source[source.index("pub(crate) fn event<") : source.index("/// The reason of")]
    fields = {"path", "remote", "state", "outbound_streams", "inbound_streams", "cause", "address", "bytes", "count", "text", "{event:?}"}
    names = set(re.findall(r'"([^"]+)"', functions)) - fields
    assert names == set(_events.EVENTS)
    assert all(getattr(anabranch, name) is kind for name, kind in _events.EVENTS.items())


@pytest.mark.parametrize("native", [anabranch.Certificate, anabranch.Keys, anabranch.Message])
def test_the_stubs_have_the_texts_of_native_classes(native: type[Any]) -> None:
    tree = ast.parse((PACKAGE / "python/anabranch/_native.pyi").read_text(encoding="utf-8"))
    (kind,) = (kind for kind in tree.body if isinstance(kind, ast.ClassDef) and kind.name == native.__name__)
    assert ast.get_docstring(kind) == inspect.getdoc(native)
    members = [member for member in kind.body if isinstance(member, ast.FunctionDef) and member.name != "__new__"]
    texts = {member.name: ast.get_docstring(member) for member in members}
    assert texts == {name: inspect.getdoc(getattr(native, name)) for name in texts}
    assert all(texts.values())


FIRST = [anabranch.Association, anabranch.Certificate, anabranch.Endpoint, anabranch.Keys, anabranch.Message, anabranch.Settings, anabranch.Stream]


@pytest.mark.parametrize("kind", FIRST, ids=lambda kind: kind.__name__)
def test_help_has_an_example_of_each_class_that_a_program_meets_first(kind: type[Any]) -> None:
    text = inspect.getdoc(kind)
    assert text is not None
    example = textwrap.dedent(re.findall(r"::\n\n((?:    .*\n|\n)+)", text)[0])
    compile(example, kind.__name__, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for name in re.findall(r"anabranch\.(\w+)", example):
        assert hasattr(anabranch, name), example
