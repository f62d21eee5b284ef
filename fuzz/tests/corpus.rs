//! Runs all stored inputs once, without coverage: the corpora, and the regressions of earlier findings.

use std::fs;
use std::path::Path;

/// A name and a function of bytes.
type Target = (&'static str, fn(&[u8]));

const TARGETS: &[Target] = &[
    ("parse", anabranch_fuzz::parse),
    ("association", anabranch_fuzz::association),
    ("pair", anabranch_fuzz::pair),
    ("outstanding", anabranch_fuzz::outstanding),
    ("named", anabranch_fuzz::named),
    ("reassembly", anabranch_fuzz::reassembly),
    ("send_queue", anabranch_fuzz::send_queue),
    ("interleaved", anabranch_fuzz::interleaved),
    ("tsn_tracker", anabranch_fuzz::tsn_tracker),
    ("recovery", anabranch_fuzz::recovery),
    ("controllers", anabranch_fuzz::controllers),
    ("work", anabranch_fuzz::work),
    #[cfg(feature = "encryption")]
    ("forward", anabranch_fuzz::forward),
    #[cfg(feature = "encryption")]
    ("handshake", anabranch_fuzz::handshake),
    #[cfg(feature = "encryption")]
    ("keys", anabranch_fuzz::keys),
    #[cfg(feature = "encryption")]
    ("session", anabranch_fuzz::session),
];

/// There is only one test, because allocated memory is counted for the whole process.
#[test]
fn every_input_passes() {
    for (name, target) in TARGETS {
        let mut count = 0;
        for kind in ["regressions", "corpus"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(name);
            let Ok(files) = fs::read_dir(&folder) else {
                continue;
            };
            for file in files {
                let path = file.expect("the folder can be read").path();
                let input = fs::read(&path).expect("the file can be read");
                let result = std::panic::catch_unwind(|| target(&input));
                assert!(result.is_ok(), "{name}: {}", path.display());
                count += 1;
            }
        }
        assert!(count > 0, "there are inputs of {name}");
    }
}
