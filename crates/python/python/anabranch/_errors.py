"""The exceptions. Their texts are those of the Rust library."""


class Error(Exception):
    """The base class of all exceptions of this package."""


class SettingError(Error, ValueError):
    """A setting or an option of a message is out of its range, or does not fit the others."""


class CertificateError(Error, ValueError):
    """A certificate, key, fingerprint or a file of keys cannot be read."""


class BindError(Error, OSError):
    """An endpoint cannot be bound."""


class ListenError(Error):
    """An endpoint cannot listen on a port."""


class ConnectError(Error, ConnectionError):
    """No association was set up."""


class ConnectTimeoutError(ConnectError, TimeoutError):
    """The peer did not answer the set-up."""


class ClosedError(Error, ConnectionError):
    """The association has ended, or it is shutting down and accepts no more messages."""


class SendError(Error):
    """A message was not accepted: it is too large or empty, or its stream does not exist."""


class BufferFullError(SendError):
    """The send buffer has no room for the message. Only `try_send` raises this exception; `send` waits."""


class ReceiveError(Error):
    """A message cannot be received: it is larger than the limit."""


class PathError(Error):
    """A request about a path was refused."""


class ReconfigurationError(Error):
    """Streams cannot be reset or added."""


class ForkedError(Error, RuntimeError):
    """This process is a fork of a process that uses this package already."""


class ExperimentError(Error, ValueError):
    """An experiment of the laboratory, one of its settings or a choice of its cells is not valid."""
