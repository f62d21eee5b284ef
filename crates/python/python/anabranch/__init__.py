"""SCTP for messages that must arrive in time, for asyncio.

A client that sends a message which is worth something for 100 ms only::

    import anabranch

    async with await anabranch.connect("192.0.2.1:9899") as association:
        await association.send(1, "at 52.52, 13.41", deadline=0.1)

`anabranch.lab` runs experiments in simulated networks.
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
from anabranch._keys import generate_key
from anabranch._native import Certificate, Keys, Message
from anabranch._types import (
    Abandoned,
    AssociationStats,
    Counters,
    Event,
    Extensions,
    IdleTimeout,
    OtherEvent,
    PathChanged,
    PathStats,
    PeerShutdown,
    Restarted,
    Settings,
    StreamsAdded,
    StreamStats,
    Undelivered,
)

__all__ = [
    "DEFAULT_SCTP_PORT",
    "DEFAULT_UDP_PORT",
    "Abandoned",
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
    "Endpoint",
    "Error",
    "Event",
    "ExperimentError",
    "Extensions",
    "ForkedError",
    "IdleTimeout",
    "Keys",
    "ListenError",
    "Message",
    "OtherEvent",
    "PathChanged",
    "PathError",
    "PathStats",
    "PeerShutdown",
    "ReceiveError",
    "ReconfigurationError",
    "Restarted",
    "SendError",
    "SettingError",
    "Settings",
    "Stream",
    "StreamStats",
    "StreamsAdded",
    "Undelivered",
    "bind",
    "connect",
    "generate_key",
    "listen",
]
