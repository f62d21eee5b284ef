//! Two endpoints on 127.0.0.1, each with its own socket and tasks.

use anabranch::{Association, Bytes, Endpoint, SendOptions, StreamId};

use super::{BenchArgs, IP_AND_UDP, Meter, PORT, Report, is_stamped, stamp};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Carries the messages.
pub(super) async fn run(args: &BenchArgs, interrupt: &Interrupt) -> Result<Report, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("loopback: {error}"));
    let server = Endpoint::builder()
        .config(args.config())
        .bind("127.0.0.1:0")
        .await;
    let server = server.map_err(|error| failed(&error))?;
    server.listen(PORT).map_err(|error| failed(&error))?;
    let client = Endpoint::builder()
        .config(args.config())
        .bind("127.0.0.1:0")
        .await;
    let client = client.map_err(|error| failed(&error))?;
    let (outbound, inbound) = tokio::join!(client.connect(server.local_addr(), PORT), server.accept());
    let outbound = outbound.map_err(|error| failed(&error))?;
    let inbound = inbound.ok_or_else(|| failed(&"the association did not arrive"))?;
    let meter = Meter::start();
    let sending = tokio::spawn(send_all(args.clone(), outbound.clone()));
    let (received, wrong) = tokio::select! {
        counts = receive_all(args, &inbound) => counts,
        () = interrupt.wait() => (0, 0),
    };
    let packets = inbound.stats().counters;
    let mtu = outbound.stats().paths.first().map_or(0, |path| path.pmtu);
    let report = meter.report(
        received,
        received * args.size,
        mtu.saturating_sub(IP_AND_UDP),
        [packets.packets_received, packets.packets_sent],
    );
    if received == args.messages() {
        sending
            .await
            .map_err(|error| failed(&error))?
            .map_err(|error| failed(&error))?;
        outbound.shutdown().await.map_err(|error| failed(&error))?;
    } else {
        sending.abort();
        outbound.abort("interrupted");
    }
    client.close().await;
    server.close().await;
    if wrong > 0 {
        return Err(Failure::new(format!(
            "{wrong} messages came out of order or cut: this is a bug"
        )));
    }
    Ok(report)
}

async fn send_all(args: BenchArgs, association: Association) -> Result<(), anabranch::SendError> {
    let mut template = vec![0x5a; usize::try_from(args.size).unwrap_or(usize::MAX)];
    let options = SendOptions {
        unordered: args.unordered,
        ..SendOptions::default()
    };
    for number in 0..args.messages() {
        stamp(&mut template, number);
        let message = Bytes::copy_from_slice(&template);
        association.send_with(StreamId(0), message, options).await?;
    }
    Ok(())
}

/// Answers how many messages came, and how many of them were not what was sent.
async fn receive_all(args: &BenchArgs, association: &Association) -> (u64, u64) {
    let (mut received, mut wrong) = (0, 0);
    while received < args.messages() {
        let Ok(Some(message)) = association.recv().await else {
            break;
        };
        let payload: Bytes = message.into_bytes();
        let right = payload.len() as u64 == args.size && (args.unordered || is_stamped(&payload, received));
        wrong += u64::from(!right);
        received += 1;
    }
    (received, wrong)
}
