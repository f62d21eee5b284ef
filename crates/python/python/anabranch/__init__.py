"""Messages between two programs that must arrive in time: SCTP over UDP, for asyncio.

A program with a server that prints messages, and a client that sends one which is of use for 100 ms::

    import asyncio
    import anabranch

    async def main():
        async with await anabranch.listen("127.0.0.1:9899") as server:
            async with await anabranch.connect("127.0.0.1:9899") as client:
                await client.send(1, "at 52.52, 13.41", deadline=0.1)
                association = await server.accept()
                print((await association.recv()).data)

    asyncio.run(main())

Begin with `connect`, `listen` and `Association`. `Settings` has the settings of an endpoint, `Keys` encrypts, `Association.stats` has counters,
and `Association.events` tells of changes. `anabranch.datachannel` talks to browsers, and `anabranch.lab` runs experiments in simulated
networks. Nothing is encrypted without `keys` or a `certificate`.
"""

from anabranch._addresses import DEFAULT_UDP_PORT
from anabranch._association import (
    DEFAULT_SCTP_PORT,
    Association,
    Data,
    Endpoint,
    Stream,
    bind,
    connect,
    listen,
)
from anabranch._errors import (
    BindError,
    BufferFullError,
    CertificateError,
    ClosedError,
    ConnectError,
    ConnectTimeoutError,
    Error,
    ExperimentError,
    ForkedError,
    ListenError,
    PathError,
    ReceiveError,
    ReconfigurationError,
    SendError,
    SettingError,
)
from anabranch._events import (
    Abandoned,
    AddressChangesUnsupported,
    AddressEvent,
    Event,
    IdleTimeout,
    LocalAddressAdded,
    LocalAddressMayShare,
    LocalAddressRefused,
    LocalAddressRemoved,
    Missed,
    OtherEvent,
    PathChanged,
    PeerAddressAdded,
    PeerAddressRemoved,
    PeerPathRemoved,
    PeerPrimaryRequested,
    PeerShutdown,
    Restarted,
    Stalled,
    StreamsAdded,
    Undelivered,
)
from anabranch._keys import generate_key
from anabranch._native import Certificate, Keys, Message
from anabranch._settings import Settings
from anabranch._stats import AssociationStats, Counters, Extensions, PathStats, StreamStats
from anabranch._types import Delivery

__all__ = [
    "DEFAULT_SCTP_PORT",
    "DEFAULT_UDP_PORT",
    "Abandoned",
    "AddressChangesUnsupported",
    "AddressEvent",
    "Association",
    "AssociationStats",
    "BindError",
    "BufferFullError",
    "Certificate",
    "CertificateError",
    "ClosedError",
    "ConnectError",
    "ConnectTimeoutError",
    "Counters",
    "Data",
    "Delivery",
    "Endpoint",
    "Error",
    "Event",
    "ExperimentError",
    "Extensions",
    "ForkedError",
    "IdleTimeout",
    "Keys",
    "ListenError",
    "LocalAddressAdded",
    "LocalAddressMayShare",
    "LocalAddressRefused",
    "LocalAddressRemoved",
    "Message",
    "Missed",
    "OtherEvent",
    "PathChanged",
    "PathError",
    "PathStats",
    "PeerAddressAdded",
    "PeerAddressRemoved",
    "PeerPathRemoved",
    "PeerPrimaryRequested",
    "PeerShutdown",
    "ReceiveError",
    "ReconfigurationError",
    "Restarted",
    "SendError",
    "SettingError",
    "Settings",
    "Stalled",
    "Stream",
    "StreamStats",
    "StreamsAdded",
    "Undelivered",
    "bind",
    "connect",
    "generate_key",
    "listen",
]
