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

use std::path::{Path, PathBuf};

use ottla_files::{FileError, Files};
use ottla_model::{BrokerId, Timestamp};
use ottla_properties::ParseError;

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
    #[error("{} is no properties file: {source}", path.display())]
    Syntax { path: PathBuf, source: ParseError },
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
        let properties = ottla_properties::parse(&content)
            .map_err(|source| MetaPropertiesError::Syntax { path: path.to_path_buf(), source })?;
        let number = |key: &'static str| match properties.get(key) {
            None => Ok(None),
            Some(value) => match value.trim().parse::<i32>() {
                Ok(number) if number >= 0 => Ok(Some(number)),
                _ => Err(MetaPropertiesError::BadValue {
                    path: path.to_path_buf(),
                    key,
                    value: value.to_owned(),
                    expected: "a number from 0",
                }),
            },
        };
        // Without a version it is 0, as Kafka has it.
        let version = number("version")?.unwrap_or(0);
        if version != 0 || properties.get("node.id").is_some() {
            return Err(MetaPropertiesError::KRaft { path: path.to_path_buf(), version });
        }
        Ok(Some(MetaProperties {
            broker_id: number("broker.id")?.map(BrokerId),
            cluster_id: properties.get("cluster.id").map(str::to_owned),
            directory_id: properties.get("directory.id").map(str::to_owned),
        }))
    }

    /// Writes the file: after a crash it is the old one or the new one.
    pub fn write<F: Files>(&self, files: &F, path: &Path, now: Timestamp) -> Result<(), FileError> {
        files.replace(path, self.text(now).as_bytes())
    }

    fn text(&self, now: Timestamp) -> String {
        let broker_id = self.broker_id.map(|id| id.to_string());
        let entries = [
            ("version", Some("0")),
            ("broker.id", broker_id.as_deref()),
            ("cluster.id", self.cluster_id.as_deref()),
            ("directory.id", self.directory_id.as_deref()),
        ];
        let entries = entries.into_iter().filter_map(|(key, value)| Some((key, value?)));
        ottla_properties::store("", now.0, entries)
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
        assert!(matches!(read("broker.id=\\u12\n"), Err(MetaPropertiesError::Syntax { .. })));
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
