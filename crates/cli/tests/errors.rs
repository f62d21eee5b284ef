//! All errors and reasons of the libraries print, and are errors of the standard library.

use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::path::Path;

/// Calls `$check` for each type, and returns the names of the types.
macro_rules! each {
    ($check:ident: $($kind:ty),+ $(,)?) => {{
        $($check::<$kind>();)+
        [$(stringify!($kind)),+]
    }};
}

fn is_error<E: Error + Send + Sync + 'static>() {}

fn prints<T: Display>() {}

fn named_here() -> Vec<&'static str> {
    let errors = each![is_error:
        anabranch::BindError,
        anabranch::ConnectError,
        anabranch::DtlsLimit,
        anabranch::FailedHandshake,
        anabranch::IdentityError,
        anabranch::KeyFileError,
        anabranch::KeyLogError,
        anabranch::ListenError,
        anabranch::PathSourceError,
        anabranch::RecvError,
        anabranch::SendError,
        anabranch::SettingsError,
        anabranch::ShutdownError,
        anabranch::blocking::RecvTimeoutError,
        anabranch_datachannel::ChannelSendError,
        anabranch_datachannel::OpenError,
        anabranch_datachannel::Refusal,
        anabranch_datachannel::SdpError,
        anabranch_datachannel::SessionEnd,
        anabranch_datachannel::SessionError,
        anabranch_dtls::CertificateError,
        anabranch_dtls::DtlsError,
        anabranch_dtls::FingerprintError,
        anabranch_forward::ClientError,
        anabranch_forward::RuleError,
        anabranch_forward::TargetFailure,
        anabranch_lab::FileError,
        anabranch_lab::KnobError,
        anabranch_lab::KnownError,
        anabranch_netsim::LinkConfigError,
        anabranch_netsim::LockstepError,
        anabranch_netsim::units::UnitError,
        anabranch_proto::AddressError,
        anabranch_proto::AuthenticationKeyError,
        anabranch_proto::CloseReason,
        anabranch_proto::ConfigError,
        anabranch_proto::ConnectError,
        anabranch_proto::DscpError,
        anabranch_proto::EndpointError,
        anabranch_proto::KeyError,
        anabranch_proto::PathError,
        anabranch_proto::PathRequestError,
        anabranch_proto::ReconfigurationError,
        anabranch_proto::SchedulingError,
        anabranch_proto::SendError,
        anabranch_wire::cause::CauseError,
        anabranch_wire::chunk::ChunkError,
        anabranch_wire::chunk::ReConfigError,
        anabranch_wire::packet::PacketError,
        anabranch_wire::parameter::ParameterError,
    ];
    each![prints: anabranch::Delivery];
    errors.to_vec()
}

/// The public types of a source file that are errors by their names.
fn declared_in(source: &str) -> impl Iterator<Item = &str> {
    const ENDINGS: [&str; 3] = ["Error", "Failure", "Refusal"];
    source
        .lines()
        .filter_map(|line| {
            line.strip_prefix("pub enum ")
                .or_else(|| line.strip_prefix("pub struct "))
        })
        .filter_map(|rest| rest.split(|letter: char| !letter.is_alphanumeric()).next())
        .filter(|name| ENDINGS.iter().any(|ending| name.ends_with(ending)))
}

fn for_each_source(directory: &Path, work: &mut dyn FnMut(&str)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            for_each_source(&path, work);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            work(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// The emulated network and the testbed exist on Linux only, so that the list does not have their errors.
#[test]
fn every_error_prints_and_is_an_error() {
    const ON_LINUX: [&str; 2] = ["BedError", "TestbedError"];
    let names = named_here();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut missing = Vec::new();
    for library in fs::read_dir(crates).unwrap() {
        let sources = library.unwrap().path().join("src");
        for_each_source(&sources, &mut |source| {
            let unnamed = |name: &&str| {
                !ON_LINUX.contains(name) && !names.iter().any(|path| path.ends_with(&format!("::{name}")))
            };
            missing.extend(declared_in(source).filter(unnamed).map(str::to_owned));
        });
    }
    assert!(
        missing.is_empty(),
        "add these types to the list above: {missing:?}"
    );
}
