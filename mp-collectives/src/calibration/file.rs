//! The measurements, kept from run to run in a file.
//!
//! A file is for one processor, one set of CPUs and one version of this library, and it says which. If a file names
//! others, can't be read, or has impossible values, the measurements are made anew.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, io::Read, io::Write};

use mp_core::calibrate::{Measurements, Outcome, Point, Sample, Seats, measure};
use mp_core::topology::Topology;
use serde::{Deserialize, Serialize};

use super::Calibration;

/// The environment variable that names the file, in place of one in the user's cache folder.
pub const FILE_VARIABLE: &str = "ONCHIP_CALIBRATION";
/// A size that no file of ours exceeds, in bytes.
const MOST_BYTES: u64 = 1 << 18;

/// A calibration and its origin.
#[derive(Clone, Debug)]
pub struct Recalled {
    /// The calibration.
    pub calibration: Calibration,
    /// Whether it was measured now.
    pub origin: Origin,
    /// The file where it is kept, or `None` where there is no place for one.
    pub file: Option<PathBuf>,
    /// The reason why it could not be kept.
    pub unsaved: Option<String>,
}

/// The origin of a calibration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was read from the file.
    File,
    /// It was measured now, because the caller wanted that, or there was no file.
    Measured,
    /// It was measured now, because the file was not usable.
    Replaced {
        /// What was wrong with it.
        why: String,
    },
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    fingerprint: Fingerprint,
    measurements: Measurements,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fingerprint {
    version: String,
    processor: String,
}

impl Fingerprint {
    fn of_this() -> Fingerprint {
        // What was measured without optimization is no machine's.
        let build = if cfg!(debug_assertions) { ", unoptimized" } else { "" };
        let version = format!("onchip {}, calibration 3{build}", env!("CARGO_PKG_VERSION"));
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Fingerprint { version, processor: processor(&text) }
    }
}

/// Returns what the first processor's lines say about its kind.
fn processor(cpuinfo: &str) -> String {
    let kinds = [
        "vendor_id",
        "cpu family",
        "model",
        "model name",
        "stepping",
        "microcode",
        "CPU implementer",
        "CPU part",
        "CPU variant",
        "CPU revision",
    ];
    let first = cpuinfo.lines().take_while(|line| !line.trim().is_empty());
    let fields = first.filter_map(|line| line.split_once(':'));
    let known = fields.filter(|(name, _)| kinds.contains(&name.trim()));
    let values: Vec<&str> = known.map(|(_, value)| value.trim()).collect();
    format!("{} {}", env::consts::ARCH, values.join(", "))
}

/// Returns this machine's calibration from the file that [`FILE_VARIABLE`] names or that is in the user's cache folder.
/// If there is none, or if it is to be done `again`, it is measured now and kept there.
pub fn recall(topology: &Topology, again: bool) -> Recalled {
    recall_from(topology, place(|name| env::var_os(name).map(PathBuf::from)), again)
}

/// Returns this machine's calibration if there is one from an earlier [`recall`]. Measures nothing, and looks at the
/// file once in the life of a process.
///
/// The calibration may be for other CPUs than may be used now, because a rank that is bound to one of them also asks.
pub fn kept() -> Option<&'static Calibration> {
    static KEPT: OnceLock<Option<Calibration>> = OnceLock::new();
    let kept = || kept_in(&place(|name| env::var_os(name).map(PathBuf::from))?);
    KEPT.get_or_init(kept).as_ref()
}

fn kept_in(file: &Path) -> Option<Calibration> {
    read(file, &Fingerprint::of_this(), None).ok()?
}

/// Does what [`recall`] does, with the given file, or with none.
pub fn recall_from(topology: &Topology, file: Option<PathBuf>, again: bool) -> Recalled {
    let (fingerprint, seats) = (Fingerprint::of_this(), Seats::of(topology));
    let read = |file| read(file, &fingerprint, Some(&seats));
    let kept = file.as_deref().filter(|_| !again).map_or(Ok(None), read);
    let origin = match kept {
        Ok(Some(calibration)) => {
            return Recalled { calibration, origin: Origin::File, file, unsaved: None };
        }
        Ok(None) => Origin::Measured,
        Err(why) => Origin::Replaced { why },
    };
    let measurements = measure(topology);
    let calibration = Calibration::of(&measurements);
    let kept = Kept { fingerprint, measurements };
    let saved = match &file {
        Some(file) => write(file, &kept).map_err(|error| format!("{}: {error}", file.display())),
        None => Err(format!("{FILE_VARIABLE}, XDG_CACHE_HOME and HOME name no folder")),
    };
    Recalled { calibration, origin, file, unsaved: saved.err() }
}

fn place(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(file) = variable(FILE_VARIABLE).filter(|file| !file.as_os_str().is_empty()) {
        return Some(file);
    }
    // The XDG specification has relative paths ignored.
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("onchip/calibration.json"))
}

/// Returns `None` where there is no file. Without seats, the calibration may be for any CPUs.
fn read(
    file: &Path,
    fingerprint: &Fingerprint,
    seats: Option<&Seats>,
) -> Result<Option<Calibration>, String> {
    let told = |what: String| format!("{}: {what}", file.display());
    // A pipe without a writer would never open.
    match fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(told(error.to_string())),
        Ok(what) if !what.is_file() => return Err(told("not a file".to_owned())),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).map_err(|error| told(error.to_string()))?;
    opened.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|error| told(error.to_string()))?;
    parse(&bytes, fingerprint, seats).map(Some).map_err(told)
}

fn parse(
    bytes: &[u8],
    fingerprint: &Fingerprint,
    seats: Option<&Seats>,
) -> Result<Calibration, String> {
    let kept: Kept =
        serde_json::from_slice(bytes).map_err(|error| format!("not a calibration: {error}"))?;
    if kept.fingerprint.version != fingerprint.version {
        return Err("of another version".to_owned());
    }
    if kept.fingerprint.processor != fingerprint.processor {
        return Err(format!("of another processor: {}", kept.fingerprint.processor));
    }
    if seats.is_some_and(|seats| kept.measurements.seats != *seats) {
        return Err("of other CPUs than may be used now".to_owned());
    }
    check(&kept.measurements)?;
    let calibration = Calibration::of(&kept.measurements);
    let wrong = calibration.values.iter().find_map(|value| match &value.replaced {
        Some(super::Replaced::Implausible { why, .. }) => Some(format!("{}: {why}", value.name)),
        _ => None,
    });
    wrong.map_or(Ok(calibration), Err)
}

/// Checks the properties that every measurement has.
fn check(measured: &Measurements) -> Result<(), String> {
    let Measurements { local, memory, far_memory, near, far, seen, .. } = measured;
    let singles = [local, memory, far_memory, near, far, seen];
    let rows: [&Outcome<Vec<Point>>; 5] = [
        &measured.near_copies,
        &measured.far_copies,
        &measured.readers,
        &measured.congestion,
        &measured.sharers,
    ];
    let points = || rows.into_iter().flatten();
    let samples = singles.into_iter().flatten();
    let samples = samples.chain(points().flatten().map(|point| &point.sample));
    let ordered = |&Sample { low, median, high, rounds }: &Sample| {
        low <= median && median <= high && high < 1 << 50 && rounds > 0
    };
    if !samples.into_iter().all(ordered) {
        return Err("quartiles that are none".to_owned());
    }
    let counted = |points: &Vec<Point>| {
        points.is_sorted_by(|a, b| a.n < b.n) && points.iter().all(|p| (1..1 << 20).contains(&p.n))
    };
    if points().all(counted) { Ok(()) } else { Err("numbers out of order".to_owned()) }
}

/// Writes the file so that a concurrent reader finds the old file or the new one.
fn write(file: &Path, kept: &Kept) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(kept)?;
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(name);
    let written = fs::File::create(&new)
        .and_then(|mut new| new.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&new, file));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::calibration::tests::{measured, sample};

    fn fingerprint() -> Fingerprint {
        let (version, processor) = ("1".to_owned(), "a".to_owned());
        Fingerprint { version, processor }
    }

    fn parse(bytes: &[u8]) -> Result<Calibration, String> {
        super::parse(bytes, &fingerprint(), Some(&measured().seats))
    }

    fn text(change: impl Fn(&mut Kept)) -> Vec<u8> {
        let mut kept = Kept { fingerprint: fingerprint(), measurements: measured() };
        change(&mut kept);
        serde_json::to_vec(&kept).unwrap()
    }

    #[test]
    fn files_of_others_are_refused_with_the_reason() {
        assert_eq!(parse(&text(|_| ())).unwrap(), Calibration::of(&measured()));
        for (wanted, change) in [
            ("version", (|k| k.fingerprint.version = "2".into()) as fn(&mut Kept)),
            ("processor", |k| k.fingerprint.processor.push('b')),
            ("other CPUs", |k| k.measurements.seats.groups[0][0] = 99),
            ("other CPUs", |k| k.measurements.seats.far = None),
            ("quartiles", |k| k.measurements.local.as_mut().unwrap().low = 1 << 20),
            ("quartiles", |k| k.measurements.near.as_mut().unwrap().rounds = 0),
            ("out of order", |k| k.measurements.readers.as_mut().unwrap()[0].n = 0),
            ("out of order", |k| k.measurements.sharers.as_mut().unwrap().reverse()),
            ("R_R: 0.1 ns", |k| k.measurements.near = Ok(sample(100))),
        ] {
            let why = parse(&text(change)).unwrap_err();
            assert!(why.contains(wanted), "{why}");
        }
        let elsewhere = text(|k| k.measurements.seats.far = None);
        assert!(super::parse(&elsewhere, &fingerprint(), None).is_ok());
        let whole = text(|_| ());
        for bytes in [&b""[..], b"{}", b"\xff\xfe", b"null", &whole[..whole.len() - 1]] {
            assert!(parse(bytes).unwrap_err().contains("not a calibration"));
        }
    }

    #[test]
    fn processors_are_told_apart_by_their_kind_not_their_clock() {
        let text = |model: &str, mhz: &str| {
            processor(&format!(
                "processor\t: 0\nmodel name\t: {model}\ncpu MHz\t: {mhz}\n\nmodel\t: 9\n"
            ))
        };
        assert_eq!(text("A", "2000"), text("A", "3000"));
        assert_ne!(text("A", "2000"), text("B", "2000"));
        assert!(!text("A", "1").contains('9') && !processor("").is_empty());
    }

    #[test]
    fn the_place_is_the_variable_or_the_cache_folder() {
        let of = |set: &[(&str, &str)]| {
            place(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(of(&[(FILE_VARIABLE, "x"), ("HOME", "/h")]), path("x"));
        let (xdg, home) = (("XDG_CACHE_HOME", "/c"), ("HOME", "/h"));
        assert_eq!(of(&[(FILE_VARIABLE, ""), xdg, home]), path("/c/onchip/calibration.json"));
        let relative = ("XDG_CACHE_HOME", "c");
        assert_eq!(of(&[relative, home]), path("/h/.cache/onchip/calibration.json"));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn it_is_measured_once_and_again_when_asked_or_when_the_file_is_no_good() {
        let topology = Topology::read().unwrap();
        let one = topology.usable_cpus().iter().take(1).collect();
        let topology = topology.confined_to(&one).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/er.json");
        let recall = |again| recall_from(&topology, Some(file.clone()), again);
        let first = recall(false);
        assert_eq!((first.origin, first.unsaved), (Origin::Measured, None));
        let second = recall(false);
        assert_eq!(second.origin, Origin::File);
        assert_eq!(second.calibration, first.calibration);
        assert_eq!(kept_in(&file), Some(first.calibration));
        assert_eq!(kept_in(&folder.path().join("other.json")), None);
        assert_eq!(recall(true).origin, Origin::Measured);
        fs::write(&file, "{").unwrap();
        assert!(matches!(recall(false).origin, Origin::Replaced { .. }));
        assert_eq!(recall(false).origin, Origin::File);
        // A folder in the file's place can be neither read nor replaced.
        let folder = recall_from(&topology, Some(folder.path().into()), false);
        assert!(matches!(folder.origin, Origin::Replaced { .. }) && folder.unsaved.is_some());
        let nowhere = recall_from(&topology, None, false);
        assert!(nowhere.file.is_none() && nowhere.unsaved.unwrap().contains("HOME"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse(&bytes).is_err());
        }

        /// What is accepted is plausible, whatever has become of the file.
        #[test]
        fn changed_files_are_refused_or_plausible(
            at in any::<proptest::sample::Index>(), byte in any::<u8>(), digits in "[0-9]{1,20}",
        ) {
            let whole = text(|_| ());
            let mut changed = whole.clone();
            let at = at.index(whole.len());
            changed[at] = byte;
            let mut longer = whole.clone();
            longer.splice(at..at, digits.bytes());
            for bytes in [changed, longer, whole[..at].to_vec()] {
                if let Ok(calibration) = parse(&bytes) {
                    prop_assert_eq!(calibration.parameters.check(), Ok(()));
                    prop_assert!(!calibration.is_implausible());
                }
            }
        }
    }
}
