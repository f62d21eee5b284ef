"""Times as arguments: seconds as a number, or a `datetime.timedelta`."""

from __future__ import annotations

from datetime import timedelta
from math import inf
from numbers import Real

from anabranch._errors import SettingError

#: A time: seconds, or a `timedelta`.
Time = float | timedelta

#: The longest times, in seconds, that are accepted as a number. A larger number is probably one of milliseconds. A `timedelta` names its unit,
#: and may therefore be longer. Where minutes are usual, the limit is an hour or more.
LONGEST = {
    "connect_timeout": 3600,
    "deadline": 10,
    "heartbeat_interval": 3600,
    "idle_timeout": 86_400,
    "lifetime": 10,
    "linger": 60,
    "low_priority_delay": 1,
    "rto_initial": 10,
    "rto_max": 120,
    "rto_min": 10,
    "sack_delay": 0.5,
    "shutdown_guard": 3600,
}


def seconds(name: str, time: Time | None) -> float | None:
    """The argument of this name in seconds."""
    if isinstance(time, timedelta):
        return _checked(name, time.total_seconds(), time)
    if not isinstance(time, Real | None):
        raise TypeError(f"{name} cannot be {time!r}: give a number of seconds, or a timedelta")
    if time is not None and LONGEST[name] < time < inf:
        raise SettingError(
            f"{name} cannot be {time}: a number is in seconds, at most {LONGEST[name]}; "
            f"{time} ms are {time / 1000} or timedelta(milliseconds={time}), {time} s are timedelta(seconds={time})"
        )
    return _checked(name, time, time)


def _checked(name: str, seconds: float | None, given: Time | None) -> float | None:
    if name == "deadline" and seconds is not None and not seconds > 0:
        raise SettingError(
            f"deadline cannot be {given}: it is the time from now within which the message must arrive, longer than 0; "
            "leave it out for a message without a deadline"
        )
    return seconds
