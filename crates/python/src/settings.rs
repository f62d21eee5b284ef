//! The settings of an endpoint and the options of messages, from Python values.

use std::net::IpAddr;
use std::time::Duration;

use anabranch::controller::{BbrConfig, CongestionControl};
use anabranch::{
    Config, CoupledControl, Dscp, DynamicAddressConfig, Failover, MultipathMode, PathId, PathPair, Ppid,
    RecoveryRules, Reliability, SchedulerKind, SendOptions,
};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failure::Failure;

/// The options of messages.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct Options {
    pub(crate) options: SendOptions,
}

#[pymethods]
impl Options {
    /// At most one of `deadline`, `lifetime` (in seconds), `retransmissions` and `buffer_priority` is given. Without `unordered`, messages with
    /// a deadline are unordered and others are not.
    #[new]
    #[pyo3(signature = (*, unordered=None, ppid=0, context=0, immediate=false, path=None, deadline=None, lifetime=None, retransmissions=None, buffer_priority=None, early_copies=0))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        unordered: Option<bool>,
        ppid: u32,
        context: u64,
        immediate: bool,
        path: Option<u8>,
        deadline: Option<f64>,
        lifetime: Option<f64>,
        retransmissions: Option<u32>,
        buffer_priority: Option<u32>,
        early_copies: u8,
    ) -> PyResult<Self> {
        let reliability = match (lifetime, retransmissions, buffer_priority) {
            (None, None, None) => Reliability::Reliable,
            (Some(time), None, None) => Reliability::Lifetime(duration("lifetime", time)?),
            (None, Some(count), None) => Reliability::Retransmissions(count),
            (None, None, Some(priority)) => Reliability::Priority(priority),
            _ => {
                let text = "a message has one of lifetime, retransmissions and buffer_priority";
                return Err(Failure::new("SettingError", text).into());
            }
        };
        let mut options = SendOptions::default();
        if let Some(time) = deadline {
            if reliability != Reliability::Reliable || early_copies > 0 {
                let text = "a message with a deadline has no lifetime, retransmissions, buffer_priority and early_copies: the association \
                            decides about them";
                return Err(Failure::new("SettingError", text).into());
            }
            options = options.deadline(duration("deadline", time)?);
        }
        let options = options
            .ppid(Ppid(ppid))
            .unordered(unordered.unwrap_or(options.unordered))
            .context(context)
            .immediate(immediate)
            .path(path.map(PathId))
            .early_copies(early_copies)
            .reliability(reliability);
        Ok(Self { options })
    }
}

/// A time in seconds.
pub(crate) fn duration(name: &str, seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        let text = format!("{name} cannot be {seconds}: give seconds, at least 0");
        Failure::new("SettingError", text)
    })
}

/// One of several names.
fn choice<T: Clone>(setting: &str, name: &str, choices: &[(&str, T)]) -> Result<T, Failure> {
    let found = choices.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| value.clone()).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let text = format!("{setting} cannot be {name:?}: choose one of {}", names.join(", "));
        Failure::new("SettingError", text)
    })
}

/// An address of this host.
pub(crate) fn address(text: &str) -> Result<IpAddr, Failure> {
    text.parse().map_err(|_| {
        let text = format!("{text:?} is not an IP address");
        Failure::new("SettingError", text)
    })
}

/// These settings, or those of a preset, changed by the fields of `anabranch.Settings` that are set.
pub(crate) fn changed(mut config: Config, fields: Option<&Bound<'_, PyDict>>) -> PyResult<Config> {
    let Some(fields) = fields else {
        return Ok(config);
    };
    if let Some(preset) = fields.get_item(PRESET)? {
        let choices = [
            ("default", Config::default as fn() -> Config),
            ("low_latency", Config::low_latency),
            ("rfc9260", Config::rfc9260),
        ];
        let text = preset.extract::<String>();
        config = choice(
            PRESET,
            &text.map_err(|error| named(PRESET, &preset, error))?,
            &choices,
        )?();
    }
    // A setting of BBR, whichever of the two fields comes first.
    let tolerates = fields.get_item(RANDOM_LOSS)?;
    for (name, value) in fields {
        let name = name.extract::<String>()?;
        if name != PRESET && name != RANDOM_LOSS {
            set(&mut config, &name, &value).map_err(|error| named(&name, &value, error))?;
        }
    }
    if let Some(tolerates) = tolerates {
        let CongestionControl::Bbr(bbr) = &mut config.congestion_control else {
            let text = format!("{RANDOM_LOSS} is a setting of BBR: set congestion_control=\"bbr\" too");
            return Err(Failure::new("SettingError", text).into());
        };
        let extracted = tolerates.extract();
        bbr.tolerate_random_loss = extracted.map_err(|error| named(RANDOM_LOSS, &tolerates, error))?;
    }
    Ok(config)
}

/// Whether the settings are those of an endpoint without settings: a test compares the documented defaults.
#[pyfunction]
pub(crate) fn is_default(settings: &Bound<'_, PyDict>) -> PyResult<bool> {
    Ok(changed(Config::default(), Some(settings))? == Config::default())
}

/// The error about a value of a wrong type or size, with the name of the setting.
fn named(setting: &str, value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = value.py();
    if error.is_instance_of::<PyOverflowError>(py) {
        let text = format!("{setting} cannot be {value}: it is out of the range of this setting");
        return Failure::new("SettingError", text).into();
    }
    if error.is_instance_of::<PyTypeError>(py) {
        let text = format!("{setting} cannot be {value:?}: {}", error.value(py));
        return PyTypeError::new_err(text);
    }
    error
}

const PRESET: &str = "preset";
const RANDOM_LOSS: &str = "tolerate_random_loss";

fn set(config: &mut Config, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let time = || -> PyResult<Duration> { Ok(duration(name, value.extract()?)?) };
    // Infinite means never.
    let time_or_never = || -> PyResult<Option<Duration>> {
        match value.extract::<f64>()? {
            f64::INFINITY => Ok(None),
            _ => time().map(Some),
        }
    };
    match name {
        "outbound_streams" => config.streams.outbound = value.extract()?,
        "max_inbound_streams" => config.streams.max_inbound = value.extract()?,
        "receive_buffer" => config.buffers.receive = value.extract()?,
        "send_buffer" => config.buffers.send = value.extract()?,
        "buffer_growth" => config.buffers.growth = value.extract()?,
        "max_message" => config.buffers.max_message = value.extract()?,
        "no_delay" => config.no_delay = value.extract()?,
        "scheduler" => {
            let choices = [
                ("first_come_first_served", SchedulerKind::FirstComeFirstServed),
                ("round_robin", SchedulerKind::RoundRobin),
                ("round_robin_per_packet", SchedulerKind::RoundRobinPerPacket),
                ("priority", SchedulerKind::Priority),
                ("fair_bandwidth", SchedulerKind::FairBandwidth),
                ("weighted_fair_queueing", SchedulerKind::WeightedFairQueueing),
            ];
            config.scheduler = choice(name, &value.extract::<String>()?, &choices)?;
        }
        "low_priority_delay" => config.low_priority_delay = Some(time()?),
        "late_per_million" => config.late_per_million = value.extract()?,
        "local_addresses" => {
            let addresses: Vec<String> = value.extract()?;
            let parsed = addresses.iter().map(|text| address(text));
            config.local_addresses = parsed.collect::<Result<_, _>>()?;
        }
        "path_pairs" => {
            let pairs: Vec<(String, String)> = value.extract()?;
            let parsed = pairs.iter().map(|(local, remote)| {
                let (local, remote) = (address(local)?, address(remote)?);
                Ok::<_, Failure>(PathPair { local, remote })
            });
            config.path_pairs = parsed.collect::<Result<_, _>>()?;
        }
        "dynamic_addresses" => {
            let offers: bool = value.extract()?;
            config.dynamic_addresses = offers.then(DynamicAddressConfig::default);
        }
        "multipath" => {
            let choices = [
                ("off", MultipathMode::Off),
                ("cmt", MultipathMode::Cmt),
                ("eca", MultipathMode::Eca),
            ];
            config.multipath.mode = choice(name, &value.extract::<String>()?, &choices)?;
        }
        "coupling" => {
            let choices = [
                ("uncoupled", CoupledControl::Uncoupled),
                ("grouped", CoupledControl::Grouped),
                ("lia", CoupledControl::Lia),
                ("resource_pooling", CoupledControl::ResourcePooling),
            ];
            config.multipath.congestion = choice(name, &value.extract::<String>()?, &choices)?;
        }
        "failover" => {
            let choices = [
                ("fast", Failover::Fast),
                (
                    "potentially_failed",
                    Failover::PotentiallyFailed { max_retrans: 0 },
                ),
                ("rfc9260", Failover::Rfc9260),
            ];
            config.retransmissions.failover = choice(name, &value.extract::<String>()?, &choices)?;
        }
        "congestion_control" => {
            let choices = [
                ("automatic", CongestionControl::Automatic),
                ("rfc9260", CongestionControl::Rfc9260),
                ("cubic", CongestionControl::Cubic),
                ("bbr", CongestionControl::Bbr(BbrConfig::default())),
            ];
            config.congestion_control = choice(name, &value.extract::<String>()?, &choices)?;
        }
        "initial_window" => config.initial_window = Some(value.extract()?),
        "loss_detection" => {
            let choices = [
                ("rack", RecoveryRules::RACK),
                ("missing_reports", RecoveryRules::RFC9260),
            ];
            config.recovery = choice(name, &value.extract::<String>()?, &choices)?;
        }
        "discard_hopeless" => config.partial_reliability.discard_hopeless = value.extract()?,
        "early_discard" => config.partial_reliability.early_discard = value.extract()?,
        "selective_forward_tsn" => {
            config.partial_reliability.selective_forward_tsn = Some(value.extract()?);
        }
        "extended_forward_tsn" => config.partial_reliability.extended_forward_tsn = value.extract()?,
        "nr_sack" => config.nr_sack.offer = value.extract()?,
        "interleaving" => config.interleaving.offer = value.extract()?,
        "reconfiguration" => config.reconfiguration.offer = value.extract()?,
        "ecn" => config.ecn = value.extract()?,
        "dscp" => {
            // A number or a name.
            let parsed = value.str()?.to_str()?.parse::<Dscp>();
            config.dscp = parsed.map_err(|error| Failure::new("SettingError", format!("dscp: {error}")))?;
        }
        "path_mtu" => config.path_mtu = value.extract()?,
        "path_mtu_limit" => config.path_mtu_limit = value.extract()?,
        "sack_delay" => config.sack.delay = time()?,
        "heartbeat_interval" => config.heartbeat.interval = time_or_never()?,
        "rto_initial" => config.rto.initial = time()?,
        "rto_min" => config.rto.min = time()?,
        "rto_max" => config.rto.max = time()?,
        "association_max_retrans" => config.retransmissions.association_max_retrans = value.extract()?,
        "path_max_retrans" => config.retransmissions.path_max_retrans = value.extract()?,
        "max_init_retransmits" => config.retransmissions.max_init_retransmits = value.extract()?,
        "shutdown_guard" => config.shutdown_guard = Some(time()?),
        "idle_timeout" => config.idle_timeout = time_or_never()?,
        _ => {
            let text = format!("there is no setting {name:?}");
            return Err(Failure::new("SettingError", text).into());
        }
    }
    Ok(())
}
