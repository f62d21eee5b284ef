//! Two endpoints on 127.0.0.1, each with its own socket and tasks; or one endpoint that has associations with itself.

use anabranch::{Association, Bytes, Endpoint, SendOptions, StreamId};
use tokio::task::JoinSet;

use super::{BenchArgs, IP_AND_UDP, Meter, PORT, Report, is_stamped, stamp};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Carries the messages.
pub(super) async fn run(args: &BenchArgs, interrupt: &Interrupt) -> Result<Report, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("loopback: {error}"));
    let config = args.config()?;
    let bind = || Endpoint::builder().config(config.clone()).bind("127.0.0.1:0");
    let server = bind().await.map_err(|error| failed(&error))?;
    server.listen_on_port(PORT).map_err(|error| failed(&error))?;
    let client = match args.associations {
        Some(_) => server.clone(),
        None => bind().await.map_err(|error| failed(&error))?,
    };
    let mut pairs = Vec::new();
    for _ in 0..args.carriers() {
        let (outbound, inbound) =
            tokio::join!(client.connect_to_port(server.local_addr(), PORT), server.accept());
        let outbound = outbound.map_err(|error| failed(&error))?;
        let inbound = inbound.ok_or_else(|| failed(&"the association did not arrive"))?;
        pairs.push((outbound, inbound));
    }
    let meter = Meter::start();
    let (mut sending, mut receiving) = (JoinSet::new(), JoinSet::new());
    for (outbound, inbound) in &pairs {
        sending.spawn(send_all(args.clone(), outbound.clone()));
        receiving.spawn(receive_all(args.clone(), inbound.clone()));
    }
    let (received, wrong) = tokio::select! {
        counts = sum(&mut receiving) => counts,
        () = interrupt.wait() => (0, 0),
    };
    let report = report(&meter, args, &pairs, received);
    if received == args.messages_each() * args.carriers() {
        while let Some(sent) = sending.join_next().await {
            sent.map_err(|error| failed(&error))?
                .map_err(|error| failed(&error))?;
        }
        for (outbound, _) in &pairs {
            outbound.shutdown().await.map_err(|error| failed(&error))?;
        }
    } else {
        sending.abort_all();
        pairs
            .iter()
            .for_each(|(outbound, _)| outbound.abort("interrupted"));
    }
    client.close().await;
    server.close().await;
    if wrong > 0 {
        return Err(Failure::new(format!(
            "{wrong} messages arrived out of order or truncated: this is a bug"
        )));
    }
    Ok(report)
}

/// The number of all received messages, and of the wrong messages among them.
async fn sum(receiving: &mut JoinSet<(u64, u64)>) -> (u64, u64) {
    let mut total = (0, 0);
    while let Some(counts) = receiving.join_next().await {
        let (received, wrong) = counts.unwrap_or_default();
        total = (total.0 + received, total.1 + wrong);
    }
    total
}

fn report(meter: &Meter, args: &BenchArgs, pairs: &[(Association, Association)], received: u64) -> Report {
    let mut packets = [0, 0];
    let mut mtu = 0;
    for (outbound, inbound) in pairs {
        let counters = inbound.stats().counters;
        packets[0] += counters.packets_received;
        packets[1] += counters.packets_sent;
        mtu = outbound
            .stats()
            .paths
            .first()
            .map_or(0, |path| path.pmtu)
            .max(mtu);
    }
    meter.report(
        received,
        received * args.size,
        mtu.saturating_sub(IP_AND_UDP),
        packets,
    )
}

async fn send_all(args: BenchArgs, association: Association) -> Result<(), anabranch::SendError> {
    let mut template = vec![0x5a; usize::try_from(args.size).unwrap_or(usize::MAX)];
    let options = SendOptions::default().unordered(args.unordered);
    for number in 0..args.messages_each() {
        stamp(&mut template, number);
        let message = Bytes::copy_from_slice(&template);
        association.send_with(StreamId(0), message, options).await?;
    }
    Ok(())
}

/// Returns the number of received messages, and the number of wrong messages among them.
async fn receive_all(args: BenchArgs, association: Association) -> (u64, u64) {
    let (mut received, mut wrong) = (0, 0);
    while received < args.messages_each() {
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
