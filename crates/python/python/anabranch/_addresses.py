"""Addresses as arguments: a host and a UDP port."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch._errors import SettingError

#: The registered UDP port of SCTP over UDP (RFC 6951 §4.1).
DEFAULT_UDP_PORT = 9899


def texts(argument: str, values: Sequence[str]) -> list[str]:
    """The values of an argument that is a list of texts."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{argument} cannot be {values!r}: give a list of texts")
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{argument} cannot have {value!r}, of the type {type(value).__name__}: give texts")
    return list(values)


def _parted(address: str) -> tuple[str, int | None]:
    """The host and the UDP port, if the address has one."""
    found, colon, port = address.rpartition(":")
    bare = address.removeprefix("[").removesuffix("]")
    if not colon or ":" in found and not found.endswith("]"):
        return bare, None
    if not port.isdecimal() or int(port) > 65535:
        raise SettingError(f"{address!r} has no UDP port: write it as 192.0.2.1:{DEFAULT_UDP_PORT} or [2001:db8::1]:{DEFAULT_UDP_PORT}")
    return found.removeprefix("[").removesuffix("]"), int(port)


def _joined(found: str, port: int) -> str:
    return f"[{found}]:{port}" if ":" in found else f"{found}:{port}"


def host(address: str) -> str:
    """The address without its UDP port."""
    return _parted(address)[0]


def whole(address: str) -> str:
    """The address with its UDP port, which is `DEFAULT_UDP_PORT` if it has none."""
    found, port = _parted(address)
    return _joined(found, DEFAULT_UDP_PORT if port is None else port)


def same_port(addresses: Sequence[str]) -> list[str]:
    """The addresses of one endpoint with its one UDP port."""
    parted = [_parted(address) for address in addresses]
    given = [(address, port) for address, (_, port) in zip(addresses, parted) if port is not None]
    for address, port in given:
        if port != given[0][1]:
            raise SettingError(
                f"{given[0][0]!r} and {address!r} have different UDP ports: all addresses of an endpoint have one UDP port (RFC 6951 §4.1)"
            )
    port = given[0][1] if given else DEFAULT_UDP_PORT
    return [_joined(found, port) for found, _ in parted]
