//! Property test of CUBIC's window for any calls, nonsensical ones included.

use core::time::Duration;

use super::Cubic;
use super::cubic::{BETA, MAX_WINDOW, State};
use crate::controller::{Controller, Coupling, NewPath, RateSample, Reduction, Report, SentPacket};
use crate::fuzzing::Commands;
use crate::time::Timestamp;

struct Model<'a> {
    commands: Commands<'a>,
    control: Cubic,
    now: Timestamp,
    packet: usize,
    delivered: u64,
    /// The state that the next undo restores.
    before: Option<State>,
    timed_out: bool,
}

pub(crate) fn run(mut commands: Commands<'_>) {
    let path = NewPath {
        max_data: packet_size(&mut commands),
        initial_window: bytes(&mut commands),
        seed: 0,
    };
    let limited = commands.u8() < 64;
    let initial_ssthresh = if limited { bytes(&mut commands) } else { usize::MAX };
    let mut model = Model {
        control: Cubic::new(&path, initial_ssthresh),
        commands,
        now: Timestamp::ZERO,
        packet: path.max_data,
        delivered: 0,
        before: None,
        timed_out: false,
    };
    while let Some(command) = model.commands.next(32) {
        match command {
            0..20 => model.growth(),
            20..23 => model.reduction(Reduction::Loss),
            23 => model.reduction(Reduction::Ecn),
            24..26 => model.reduction(Reduction::Timeout),
            26 => model.spurious(),
            27 => model.idle(),
            28 => {
                model.packet = packet_size(&mut model.commands);
                model.control.on_packet_size(model.packet);
            }
            _ => model.sending(),
        }
        model.check();
    }
}

/// Sizes of DATA chunks, mostly usual ones.
fn packet_size(commands: &mut Commands<'_>) -> usize {
    match commands.next(8) {
        Some(0) => 1 + usize::from(commands.u16()).min(65_534),
        Some(1..4) => 1240,
        _ => 1460,
    }
}

fn bytes(commands: &mut Commands<'_>) -> usize {
    match commands.next(8) {
        Some(0) => usize::MAX - usize::from(commands.u8()),
        Some(1) => (commands.u32() as usize) << 12,
        Some(2) => usize::from(commands.u8()),
        _ => usize::from(commands.u16()) * 8,
    }
}

fn time(commands: &mut Commands<'_>) -> Duration {
    match commands.next(32) {
        Some(0) => Duration::ZERO,
        Some(1) => Duration::MAX,
        Some(2) => Duration::from_secs(commands.u32().into()),
        Some(3) => Duration::from_nanos(commands.u8().into()),
        _ => Duration::from_micros(commands.u16().into()),
    }
}

impl Model<'_> {
    fn flag(&mut self) -> bool {
        self.commands.u8() < 128
    }

    fn maybe_time(&mut self) -> Option<Duration> {
        self.flag().then(|| time(&mut self.commands))
    }

    fn pass(&mut self) {
        self.now += time(&mut self.commands).min(Duration::from_secs(1 << 24));
    }

    fn report(&mut self) -> Report {
        self.pass();
        let acked = bytes(&mut self.commands);
        let before = self.delivered;
        self.delivered = self.delivered.saturating_add(acked as u64);
        let sample = self.flag().then(|| RateSample {
            delivered: acked as u64,
            interval: time(&mut self.commands),
            application_limited: false,
            rtt: None,
            flight_when_sent: 0,
            lost: 0,
            delivered_before: before.saturating_sub(bytes(&mut self.commands) as u64),
            total_delivered: self.delivered,
        });
        Report {
            now: self.now,
            prior_flight: bytes(&mut self.commands),
            acked,
            lost: 0,
            marked: 0,
            reduction: None,
            recovering: self.commands.u8() < 32,
            advanced: true,
            all_acked: false,
            application_limited: self.commands.u8() < 32,
            smoothed_rtt: self.maybe_time(),
            latest_rtt: self.maybe_time(),
            min_rtt: None,
            sample,
            coupling: Coupling::Uncoupled,
        }
    }

    /// Without a reduction the window never falls, and it does not change if it must not grow.
    fn growth(&mut self) {
        let report = self.report();
        let before = self.control.state.cwnd;
        self.control.on_report(&report);
        self.timed_out &= report.acked == 0;
        let grown = self.control.state.cwnd - before;
        assert!(grown >= 0.0, "{report:?}");
        if report.recovering || report.application_limited || report.acked == 0 {
            assert_eq!(grown, 0.0, "{report:?}");
        }
        // Growth is never faster than slow start; the difference of two large windows is not exact.
        assert!(grown <= report.acked as f64 + 0.001, "{report:?}");
    }

    /// One reduction, whatever else the report contains.
    fn reduction(&mut self, reduction: Reduction) {
        let report = Report {
            reduction: Some(reduction),
            ..self.report()
        };
        self.timed_out &= report.acked == 0;
        let before = self.control.state;
        self.control.on_report(&report);
        let state = &self.control.state;
        let packet = self.packet as f64;
        if reduction == Reduction::Timeout && self.timed_out {
            let cwnd = packet;
            assert_eq!(*state, State { cwnd, ..before });
            return;
        }
        let reduced = state.ssthresh.expect("set by each reduction");
        match reduction {
            Reduction::Loss => assert_eq!(state.cwnd, reduced),
            Reduction::Ecn => assert!(state.cwnd >= packet && state.cwnd <= before.cwnd),
            Reduction::Timeout => assert_eq!(state.cwnd, packet),
        }
        if reduction != Reduction::Ecn {
            assert_eq!(reduced, (before.cwnd * BETA).max(2.0 * packet));
        }
        assert_eq!(state.epoch, None);
        self.before = (reduction != Reduction::Ecn).then_some(before);
        self.timed_out = reduction == Reduction::Timeout;
    }

    /// Either all of the state before the reduction is restored, or nothing changes.
    fn spurious(&mut self) {
        self.pass();
        let state = self.control.state;
        self.control.on_spurious(self.now);
        let restored = self.before.take().filter(|before| before.cwnd > state.cwnd);
        let expected = restored.map_or(state, |before| State {
            cwnd: before.cwnd.max(self.packet as f64),
            ..before
        });
        assert_eq!(self.control.state, expected);
        self.timed_out &= restored.is_none();
    }

    fn idle(&mut self) {
        self.pass();
        let before = self.control.state;
        let first = self.flag();
        self.control.on_idle(self.now, first);
        let state = &self.control.state;
        assert!(state.cwnd <= before.cwnd && state.cwnd >= before.cwnd / 2.0);
        assert!(state.ssthresh >= before.ssthresh, "{state:?}");
        if state.cwnd < before.cwnd {
            self.before = None;
        }
    }

    fn sending(&mut self) {
        self.pass();
        let (bytes, flight) = (bytes(&mut self.commands), bytes(&mut self.commands));
        let state = self.control.state;
        self.control.on_sent(&SentPacket {
            now: self.now,
            bytes,
            flight,
            application_limited: false,
        });
        assert_eq!(self.control.state, state);
    }

    fn check(&self) {
        let cwnd = self.control.state.cwnd;
        assert!(cwnd >= self.packet as f64 && cwnd <= MAX_WINDOW, "{cwnd}");
        assert_eq!(self.control.window(), self.control.metrics().cwnd);
        if let Some(pace) = self.control.pace() {
            assert!(pace.rate > 0.0 && pace.rate.is_finite(), "{pace:?}");
            assert!(
                pace.quantum >= self.packet && pace.quantum <= 2 * 65_535,
                "{pace:?}"
            );
        }
        if let Some(epoch) = &self.control.state.epoch {
            assert!(epoch.k >= 0.0 && epoch.w_cubic(epoch.age.as_secs_f64()).is_finite());
        }
    }
}
