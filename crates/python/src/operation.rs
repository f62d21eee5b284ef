//! Operations that take time: futures that the thread of the event loop polls itself.
//!
//! An operation advances only while Python calls [`Operation::poll`], and [`Operation::close`] drops its future. Cancelling a Python task
//! is therefore the same as dropping the future in Rust, which loses no message. If a thread of the runtime completed the operation
//! instead, a message could be taken from the association and then find its task cancelled.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::failure::Failure;
use crate::runtime::{Owned, enter};

/// Makes the Python object of a result.
pub(crate) type Answer = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Py<PyAny>> + Send>;

type Work = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An operation that is not complete.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct Operation {
    work: Mutex<Option<Owned<Work>>>,
}

/// Begins an operation. Most are complete at once: then the result is returned, and otherwise the operation.
pub(crate) fn begin<T, E>(
    py: Python<'_>,
    future: impl Future<Output = Result<T, E>> + Send + 'static,
    answer: impl for<'py> FnOnce(Python<'py>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>>
where
    T: Send + 'static,
    Failure: From<E>,
{
    let _guard = enter()?;
    let mut work: Work = Box::pin(async move {
        let value = future.await.map_err(Failure::from)?;
        Ok(Box::new(move |py: Python<'_>| answer(py, value)) as Answer)
    });
    match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done?(py),
        Poll::Pending => {
            let operation = Operation {
                work: Mutex::new(Some(Owned::new(work))),
            };
            Ok(Py::new(py, operation)?.into_any())
        }
    }
}

/// An answer without a value.
pub(crate) fn nothing(py: Python<'_>, (): ()) -> PyResult<Py<PyAny>> {
    Ok(py.None())
}

#[pymethods]
impl Operation {
    /// Advances the operation: a tuple with its result, or `None` until `wakeups` has the number `ticket`.
    fn poll<'py>(
        &self,
        py: Python<'py>,
        wakeups: &Wakeups,
        ticket: u64,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let waker = Waker::from(Arc::new(Ticket {
            number: ticket,
            shared: Arc::clone(&wakeups.shared),
        }));
        let done = {
            let mut work = lock(&self.work);
            let Some(mut owned) = work.take() else {
                return Err(Failure::new("Error", "the operation has ended").into());
            };
            let _guard = enter()?;
            match owned.get_mut()?.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(done) => done?,
                Poll::Pending => {
                    *work = Some(owned);
                    return Ok(None);
                }
            }
        };
        PyTuple::new(py, [done(py)?]).map(Some)
    }

    /// Ends the operation without a result.
    fn close(&self) {
        let work = lock(&self.work).take();
        drop(work);
    }
}

/// The numbers of the operations that an event loop should advance, and a socket that is readable while there are any.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct Wakeups {
    shared: Arc<Shared>,
    readable: UnixStream,
}

struct Shared {
    tickets: Mutex<Vec<u64>>,
    written: UnixStream,
}

#[pymethods]
impl Wakeups {
    #[new]
    fn new() -> PyResult<Self> {
        let (readable, written) = UnixStream::pair()?;
        readable.set_nonblocking(true)?;
        written.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            tickets: Mutex::default(),
            written,
        });
        Ok(Self { shared, readable })
    }

    /// The descriptor of the socket.
    fn fileno(&self) -> i32 {
        self.readable.as_raw_fd()
    }

    /// Takes the numbers.
    fn take(&self) -> Vec<u64> {
        // Emptied before the numbers are taken: a number that comes later makes the socket readable again.
        let mut bytes = [0; 64];
        while (&self.readable)
            .read(&mut bytes)
            .is_ok_and(|count| count == bytes.len())
        {}
        std::mem::take(&mut lock(&self.shared.tickets))
    }
}

struct Ticket {
    number: u64,
    shared: Arc<Shared>,
}

impl Wake for Ticket {
    /// Takes no lock of Python: the caller may hold the lock of an association, which a Python thread waits for.
    fn wake(self: Arc<Self>) {
        let is_first = {
            let mut tickets = lock(&self.shared.tickets);
            tickets.push(self.number);
            tickets.len() == 1
        };
        if is_first {
            // Full means readable. After the end of the event loop, nobody reads.
            let _ = (&self.shared.written).write(&[0]);
        }
    }
}
