"""Types that the association, its statistics and its events share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anabranch._documented import documented


@documented
@dataclass(frozen=True)
class Delivery:
    """The outcome of one message, which `deliver` returns."""

    outcome: Literal["acknowledged", "abandoned", "failed"]
    """`"acknowledged"`: the peer has the whole message, perhaps late, and its program need not have read it yet. `"abandoned"`: its deadline,
    lifetime or limit of retransmissions has passed, or, with `buffer_priority`, it made way for another message. `"failed"`: the association
    ended or restarted before."""
    sent: bool
    """Whether any part of the message was sent. If not, the peer cannot have received the message: the program may send it in another
    association, and no duplicate arises."""
    message: int
    """The number of the message, as `send` returns it. Events about the message have it too."""


#: The state of a path (RFC 9260 §5.4, §8.2; RFC 7829).
PathState = Literal["unconfirmed", "active", "potentially_failed", "inactive"]
