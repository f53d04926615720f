//! Whose data a log dir holds: `meta.properties`, a Java properties file.
//!
//! ```text
//! #
//! #Tue Nov 14 22:13:20 UTC 2023
//! version=0
//! broker.id=0
//! cluster.id=mCpFNZGPQ0CFW7y0dCGVXw
//! ```
//!
//! It keeps a broker from starting on another broker's data, and from joining another cluster with its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ottla_files::{FileError, Files};
use ottla_model::{BrokerId, Timestamp};

/// A few short lines.
const BYTES_MAX: u64 = 64 * 1024;

/// What a log dir knows of its owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetaProperties {
    pub broker_id: Option<BrokerId>,
    /// Kafka writes it since 2.4.
    pub cluster_id: Option<String>,
    /// `directory.id`, which brokers write that are about to migrate to KRaft; kept, but not used.
    pub directory_id: Option<String>,
}

/// Why a log dir cannot be used. Nothing is overwritten: the operator decides which of the two values is wrong.
#[derive(Debug, thiserror::Error)]
pub enum MetaPropertiesError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {key} is \"{value}\", expected {expected}", path.display())]
    BadValue { path: PathBuf, key: &'static str, value: String, expected: &'static str },
    #[error(
        "{} has version {version}, that of a KRaft broker, whose data a ZooKeeper-mode broker cannot take \
         over; point log.dirs at other directories",
        path.display()
    )]
    KRaft { path: PathBuf, version: i32 },
    #[error(
        "{} belongs to cluster {stored}, but ZooKeeper says that this is cluster {expected}. Either \
         zookeeper.connect leads to the wrong ensemble or chroot, or ZooKeeper has lost its data. If these \
         records belong here all the same, set cluster.id={expected} in that file",
        path.display()
    )]
    ClusterId { path: PathBuf, stored: String, expected: String },
    #[error(
        "{} belongs to broker.id {stored}, but broker.id is configured as {configured}. If the data was moved \
         here, configure broker.id={stored}; for a new broker, point log.dirs at empty directories",
        path.display()
    )]
    BrokerId { path: PathBuf, stored: BrokerId, configured: BrokerId },
    #[error(
        "{} belongs to broker.id {id}, but {} to {other_id}; one broker cannot run on both",
        path.display(),
        other.display()
    )]
    DirectoriesDisagree { path: PathBuf, id: BrokerId, other: PathBuf, other_id: BrokerId },
}

impl MetaProperties {
    /// Reads the file; `None` if there is none.
    pub fn read<F: Files>(files: &F, path: &Path) -> Result<Option<MetaProperties>, MetaPropertiesError> {
        let content = match files.read(path, BYTES_MAX) {
            Ok(content) => content,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let properties = parse(&String::from_utf8_lossy(&content));
        let number = |key: &'static str| match properties.get(key) {
            None => Ok(None),
            Some(value) => match value.trim().parse::<i32>() {
                Ok(number) if number >= 0 => Ok(Some(number)),
                _ => Err(MetaPropertiesError::BadValue {
                    path: path.to_path_buf(),
                    key,
                    value: value.clone(),
                    expected: "a number from 0",
                }),
            },
        };
        // Without a version it is 0, as Kafka has it.
        let version = number("version")?.unwrap_or(0);
        if version != 0 || properties.contains_key("node.id") {
            return Err(MetaPropertiesError::KRaft { path: path.to_path_buf(), version });
        }
        Ok(Some(MetaProperties {
            broker_id: number("broker.id")?.map(BrokerId),
            cluster_id: properties.get("cluster.id").cloned(),
            directory_id: properties.get("directory.id").cloned(),
        }))
    }

    /// Writes the file: after a crash it is the old one or the new one.
    pub fn write<F: Files>(&self, files: &F, path: &Path, now: Timestamp) -> Result<(), FileError> {
        files.replace(path, self.text(now).as_bytes())
    }

    fn text(&self, now: Timestamp) -> String {
        let mut text = format!("#\n#{}\nversion=0\n", java_date(now));
        let mut line = |key, value: Option<String>| {
            if let Some(value) = value {
                // As Java escapes what it would otherwise read as a separator or comment.
                let value = value.replace('\\', "\\\\").replace('=', "\\=").replace(':', "\\:");
                text.push_str(&format!("{key}={value}\n"));
            }
        };
        line("broker.id", self.broker_id.map(|id| id.to_string()));
        line("cluster.id", self.cluster_id.clone());
        line("directory.id", self.directory_id.clone());
        text
    }

    /// Decides which broker this is, from what its log dirs say and what is configured; `None` when neither
    /// knows, and an id must be generated.
    pub fn agree(
        found: &[(PathBuf, Option<MetaProperties>)],
        configured: Option<BrokerId>,
        cluster_id: &str,
    ) -> Result<Option<BrokerId>, MetaPropertiesError> {
        let mut agreed: Option<(&Path, BrokerId)> = None;
        for (path, properties) in found {
            let Some(properties) = properties else { continue };
            if let Some(stored) = properties.cluster_id.as_ref().filter(|stored| *stored != cluster_id) {
                return Err(MetaPropertiesError::ClusterId {
                    path: path.clone(),
                    stored: stored.clone(),
                    expected: cluster_id.to_owned(),
                });
            }
            let Some(id) = properties.broker_id else { continue };
            match agreed {
                Some((other, other_id)) if other_id != id => {
                    return Err(MetaPropertiesError::DirectoriesDisagree {
                        path: path.clone(),
                        id,
                        other: other.to_path_buf(),
                        other_id,
                    });
                }
                Some(_) => {}
                None => agreed = Some((path, id)),
            }
        }
        match (agreed, configured) {
            (Some((path, stored)), Some(configured)) if stored != configured => {
                Err(MetaPropertiesError::BrokerId { path: path.to_path_buf(), stored, configured })
            }
            (agreed, configured) => Ok(configured.or(agreed.map(|(_, id)| id))),
        }
    }
}

/// The keys and values of a Java properties text, as far as `Properties.store` writes them: no line is
/// continued.
fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .map(str::trim_start)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '!']))
        .map(|line| {
            let mut key = String::new();
            let mut rest = line.chars();
            let separator = loop {
                match rest.next() {
                    Some('\\') => key.extend(rest.next()),
                    Some(c) if matches!(c, '=' | ':') || c.is_whitespace() => break Some(c),
                    Some(c) => key.push(c),
                    None => break None,
                }
            };
            let mut value = rest.as_str().trim_start();
            if separator.is_some_and(char::is_whitespace) {
                value = value.strip_prefix(['=', ':']).unwrap_or(value).trim_start();
            }
            let mut rest = value.chars();
            let mut value = String::new();
            while let Some(c) = rest.next() {
                value.extend(if c == '\\' { rest.next() } else { Some(c) });
            }
            (key, value)
        })
        .collect()
}

/// A time as `java.util.Date` prints it, in UTC: `Tue Nov 14 22:13:20 UTC 2023`.
fn java_date(time: Timestamp) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // 1970-01-01 was a Thursday.
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let seconds = time.0.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01 of the proleptic Gregorian calendar: years that start in March end in the leap day.
    let since_march = days + 719_468;
    let era = since_march.div_euclid(146_097);
    let day_of_era = since_march.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + i64::from(month < 2);
    format!(
        "{} {} {day:02} {:02}:{:02}:{:02} UTC {year}",
        WEEKDAYS[days.rem_euclid(7) as usize],
        MONTHS[month as usize],
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_files::HostileDisk;

    fn read(content: &str) -> Result<Option<MetaProperties>, MetaPropertiesError> {
        let disk = HostileDisk::new(0);
        disk.replace(Path::new("/meta.properties"), content.as_bytes()).unwrap();
        MetaProperties::read(&disk, Path::new("/meta.properties"))
    }

    fn owner(broker_id: i32, cluster_id: &str) -> MetaProperties {
        MetaProperties {
            broker_id: Some(BrokerId(broker_id)),
            cluster_id: Some(cluster_id.to_owned()),
            directory_id: None,
        }
    }

    #[test]
    fn text_is_javas() {
        assert_eq!(
            owner(0, "mCpFNZGPQ0CFW7y0dCGVXw").text(Timestamp(1_700_000_000_000)),
            "#\n#Tue Nov 14 22:13:20 UTC 2023\nversion=0\nbroker.id=0\ncluster.id=mCpFNZGPQ0CFW7y0dCGVXw\n"
        );
        for (time, date) in [
            (0, "Thu Jan 01 00:00:00 UTC 1970"),
            (951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000"),
            (4_107_542_399_999, "Sun Feb 28 23:59:59 UTC 2100"),
            (1_796_083_200_000, "Tue Dec 01 00:00:00 UTC 2026"),
            (-1, "Wed Dec 31 23:59:59 UTC 1969"),
        ] {
            assert_eq!(java_date(Timestamp(time)), date);
        }
    }

    #[test]
    fn a_written_file_is_read_back() {
        let disk = HostileDisk::new(0);
        let path = Path::new("/meta.properties");
        assert_eq!(MetaProperties::read(&disk, path).unwrap(), None);
        let mut properties = owner(1001, "with=signs:and\\more");
        properties.directory_id = Some("dir".to_owned());
        properties.write(&disk, path, Timestamp(0)).unwrap();
        assert_eq!(MetaProperties::read(&disk, path).unwrap(), Some(properties));
    }

    #[test]
    fn what_kafka_reads_we_read() {
        for (why, content, broker_id, cluster_id) in [
            ("before 2.4 there was no cluster id", "version=0\nbroker.id=3\n", Some(3), None),
            ("no version means 0", "broker.id=3\ncluster.id=c\n", Some(3), Some("c")),
            ("empty", "", None, None),
            ("edited by hand", "# mine\n! too\n  broker.id : 3\r\ncluster.id c\n", Some(3), Some("c")),
            ("a key of someone else", "broker.id=3\nother=x\n", Some(3), None),
        ] {
            let properties = read(content).expect(why).expect(why);
            assert_eq!(properties.broker_id, broker_id.map(BrokerId), "{why}");
            assert_eq!(properties.cluster_id.as_deref(), cluster_id, "{why}");
        }
    }

    #[test]
    fn what_is_no_ours_is_refused() {
        assert!(matches!(
            read("version=1\nnode.id=1\ncluster.id=c\n"),
            Err(MetaPropertiesError::KRaft { version: 1, .. })
        ));
        for content in ["version=x\n", "broker.id=-1\n", "broker.id=99999999999\n", "broker.id=\n"] {
            assert!(matches!(read(content), Err(MetaPropertiesError::BadValue { .. })), "{content:?}");
        }
    }

    #[test]
    fn mismatches_are_refused_with_both_values_and_the_path() {
        let [a, b] = ["/a/meta.properties", "/b/meta.properties"].map(PathBuf::from);
        let decide =
            |first: Option<MetaProperties>, second: Option<MetaProperties>, configured: Option<i32>| {
                let found = [(a.clone(), first), (b.clone(), second)];
                MetaProperties::agree(&found, configured.map(BrokerId), "ours")
            };
        let id = |id| Some(BrokerId(id));
        for (why, first, second, configured, agreed) in [
            ("new directories", None, None, Some(1), id(1)),
            ("new directories, no id", None, None, None, None),
            ("one is new", Some(owner(1, "ours")), None, Some(1), id(1)),
            ("the stored id serves", None, Some(owner(1001, "ours")), None, id(1001)),
            ("an empty file", Some(MetaProperties::default()), None, Some(1), id(1)),
        ] {
            assert_eq!(decide(first, second, configured).expect(why), agreed, "{why}");
        }
        for (why, first, second, configured, shown) in [
            ("another cluster", owner(1, "theirs"), owner(1, "ours"), Some(1), ["/a/", "theirs", "ours"]),
            ("another broker", owner(1, "ours"), owner(1, "ours"), Some(2), ["/a/", "broker.id 1", "as 2"]),
            ("two brokers", owner(1, "ours"), owner(2, "ours"), None, ["/a/", "broker.id 2", "to 1"]),
        ] {
            let error = decide(Some(first), Some(second), configured).expect_err(why).to_string();
            for part in shown {
                assert!(error.contains(part), "{why}: {error}");
            }
        }
    }
}
