//! SCTP by usrsctp, the stack of most browsers, over UDP. The file has an association of its own: with one association, the file fills
//! the send buffer, which all streams share, and the messages wait for it.

use crate::foreign::{Settings, USRSCTP};
use crate::record::arrived;
use crate::traffic::{file_part, generate, taken};
use crate::{Job, Outcome, Rival, Side};

pub(crate) const RIVALS: &[Rival] = &[
    Rival::new("usrsctp", "usrsctp", "reliable, ordered, SCTP_NODELAY").second(),
    Rival::new(
        "usrsctp-lifetime",
        "usrsctp",
        "PR-SCTP: unordered, lifetime = deadline (control: reliable, ordered), SCTP_NODELAY",
    ),
];

pub(crate) fn run(side: Side, job: &Job) -> Outcome<()> {
    let expires = job.rival == "usrsctp-lifetime" && !job.traffic.is_reliable();
    let milliseconds = if expires {
        job.traffic.deadline().as_millis() as u64
    } else {
        0
    };
    let (settings, of_file) = (
        Settings {
            milliseconds,
            is_file: false,
        },
        Settings {
            milliseconds: 0,
            is_file: true,
        },
    );
    let file_addr = job.addr_of_file();
    if side == Side::Receiver {
        let connection = USRSCTP.accept(job.addr, settings)?;
        if job.file {
            let file = USRSCTP.accept(file_addr, of_file)?;
            std::thread::spawn(move || file.receive_all(arrived));
        }
        return connection.receive_all(arrived);
    }
    let connection = USRSCTP.connect(job.addr, settings)?;
    if job.file {
        // The receiver listens on the second port after it has accepted the first association.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let file = USRSCTP.connect(file_addr, of_file)?;
        let part = file_part();
        std::thread::spawn(move || while file.send(&part).is_ok() {});
    }
    let mut messages = generate(job);
    while let Some(message) = messages.blocking_recv() {
        connection.send(&message)?;
        taken();
    }
    Ok(())
}
