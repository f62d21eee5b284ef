"""Names that settings, statistics and events share."""

from __future__ import annotations

from typing import Literal

#: The fate of a message.
Delivery = Literal["acknowledged", "abandoned", "failed"]

#: The state of a path (RFC 9260 §5.4, §8.2; RFC 7829).
PathState = Literal["unconfirmed", "active", "potentially_failed", "inactive"]
