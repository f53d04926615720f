//! What is told of the configuration: DescribeConfigs, and the page of documentation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::definition::{Definition, Kind, Reach, Update, Value};
use super::settings::{Settings, Source, broker_key};
use super::topic::{self, TopicOverrides};
use super::{BROKER_KEYS, ConfigError, TOPIC_KEYS, find_prefixed, legacy};

/// One configuration as DescribeConfigs answers it; every version of the API takes what it has room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConfig {
    pub name: String,
    /// Null where the value is, and where it is a secret.
    pub value: Option<String>,
    pub source: Source,
    pub read_only: bool,
    pub sensitive: bool,
    /// `None` for a key that nobody knows.
    pub kind: Option<Kind>,
    /// Everything that speaks for the key, the strongest first.
    pub synonyms: Vec<Synonym>,
    pub documentation: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synonym {
    pub name: &'static str,
    /// Null where it is a secret.
    pub value: Option<String>,
    pub source: Source,
}

/// Every key of the broker, and what else its file holds.
pub fn describe_broker(settings: &Settings) -> Result<Vec<DescribedConfig>, ConfigError> {
    let mut described = Vec::with_capacity(BROKER_KEYS.len());
    for key in BROKER_KEYS.iter().filter(|key| key.reach != Reach::Internal) {
        // Its own value: Kafka shows null for log.roll.ms even where log.roll.hours decides.
        let value = match settings.given(key.name) {
            Some(_) => settings.value(key)?,
            None => key.default_value(),
        };
        let synonyms = broker_synonyms(settings, key);
        described.push(describe(key, value, synonyms, key.update == Update::ReadOnly));
    }
    for (source, layer) in settings.layers() {
        for (name, given) in layer.iter().filter(|(name, _)| super::find(name).is_none()) {
            if described.iter().any(|other| other.name == **name) {
                continue;
            }
            let key = find_prefixed(name);
            // A stranger's value may be a secret for all we know.
            let sensitive = key.is_none_or(|key| key.kind.is_sensitive());
            described.push(DescribedConfig {
                name: name.clone(),
                value: (!sensitive).then(|| given.value.clone()),
                source,
                read_only: true,
                sensitive,
                kind: key.map(|key| key.kind),
                synonyms: vec![],
                documentation: key.map(|key| key.doc.trim()),
            });
        }
    }
    Ok(described)
}

/// Every key of a topic with these values of its own.
pub fn describe_topic(
    settings: &Settings,
    overrides: &TopicOverrides,
) -> Result<Vec<DescribedConfig>, ConfigError> {
    let mut described = Vec::with_capacity(TOPIC_KEYS.len());
    for entry in topic::values(settings, overrides) {
        let (key, value) = entry?;
        let mut synonyms = match key.synonyms.first() {
            Some(&(broker, _)) => broker_synonyms(settings, broker_key(broker)),
            None => vec![],
        };
        if overrides.contains_key(key.name) {
            let value = value.as_ref().map(Value::to_string);
            synonyms.insert(0, Synonym { name: key.name, value, source: Source::Topic });
        }
        described.push(describe(key, value, synonyms, false));
    }
    Ok(described)
}

fn describe(
    key: &'static Definition,
    value: Option<Value>,
    synonyms: Vec<Synonym>,
    read_only: bool,
) -> DescribedConfig {
    let sensitive = key.kind.is_sensitive();
    DescribedConfig {
        name: key.name.to_owned(),
        value: value.filter(|_| !sensitive).map(|value| value.to_string()),
        source: synonyms.first().map_or(Source::Default, |synonym| synonym.source),
        read_only,
        sensitive,
        kind: Some(key.kind),
        synonyms,
        documentation: Some(key.doc.trim()),
    }
}

/// What speaks for a broker key: layer by layer the key and then its synonyms, up to the defaults.
///
/// Begins with the key itself, so that hours are not shown as the source of unset milliseconds.
fn broker_synonyms(settings: &Settings, key: &'static Definition) -> Vec<Synonym> {
    let keys = || std::iter::once(key).chain(key.synonyms.iter().map(|&(name, _)| broker_key(name)));
    let shown = |key: &Definition, value: &str| (!key.kind.is_sensitive()).then(|| value.to_owned());
    let mut synonyms = Vec::new();
    for (source, layer) in settings.layers() {
        for key in keys() {
            if let Some(given) = layer.get(key.name) {
                synonyms.push(Synonym { name: key.name, value: shown(key, &given.value), source });
            }
        }
    }
    for key in keys() {
        if let Some(default) = key.default {
            synonyms.push(Synonym { name: key.name, value: shown(key, default), source: Source::Default });
        }
    }
    synonyms.into_iter().skip_while(|synonym| synonym.name != key.name).collect()
}

/// The page of documentation.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         A broker reads Kafka's `server.properties`, in the full syntax of Java properties files, or the \
         same keys from a\nfile that ends in `.toml`, where tables are joined by dots and arrays are lists. \
         `--override key=value` comes last.\n\n\
         This page is made from the keys' declarations in `crates/broker/src/config`. A key marked *no \
         effect* is known, checked\nand shown, but is about Java, KRaft or tiered storage. *Update* tells \
         whether a running broker can be given another\nvalue: for one broker, or for the whole cluster.\n",
    );
    for (title, keys) in [("Broker", BROKER_KEYS), ("Topic", TOPIC_KEYS)] {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "\n## {title} keys");
        let mut section = "";
        for key in keys.iter().filter(|key| key.reach != Reach::Internal) {
            if key.section != section {
                section = key.section;
                let _ = writeln!(page, "\n### {section}");
            }
            entry(&mut page, key);
        }
    }
    page.push_str(
        "\n## Keys of Kafka 0.8\n\nKafka 3.9 passes over these. Here they are read as what they \
     have become.\n\n",
    );
    page.push_str("| key | is read as |\n|---|---|\n");
    for (key, becomes) in legacy::TRANSLATED {
        let _ = writeln!(page, "| `{key}` | {becomes} |");
    }
    page.push_str(
        "\nThese have nothing left to act on; a start with them warns.\n\n| key | instead |\n|---|---|\n",
    );
    for (key, instead) in legacy::GONE {
        let _ = writeln!(page, "| `{key}` | {instead} |");
    }
    page
}

fn entry(page: &mut String, key: &Definition) {
    let doc: Vec<&str> = key.doc.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut facts = vec![key.kind.to_string().to_lowercase()];
    facts.push(match key.default {
        None => "no default".to_owned(),
        Some("") => "default empty".to_owned(),
        Some(default) => format!("default `{default}`"),
    });
    let valid = key.valid.to_string();
    if !valid.is_empty() {
        facts.push(format!("valid `{valid}`"));
    }
    if !key.synonyms.is_empty() {
        let names: Vec<String> = key.synonyms.iter().map(|(name, _)| format!("`{name}`")).collect();
        facts.push(format!("follows {}", names.join(", ")));
    }
    facts.push(format!("{:?} importance", key.importance).to_lowercase());
    match key.update {
        Update::ReadOnly => {}
        Update::PerBroker => facts.push("update per broker".to_owned()),
        Update::ClusterWide => facts.push("update cluster-wide".to_owned()),
    }
    if key.reach == Reach::NoEffect {
        facts.push("*no effect*".to_owned());
    }
    let _ = writeln!(page, "\n**`{}`**  \n{}  \n{}", key.name, doc.join(" "), facts.join("; "));
}

/// The configuration that counts, for the log at start: what was given, secrets hidden.
pub fn effective(settings: &Settings) -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    for (_, layer) in settings.layers().into_iter().rev() {
        for (name, given) in layer {
            let secret = find_prefixed(name).is_none_or(|key| key.kind.is_sensitive());
            shown.insert(name.clone(), if secret { "[hidden]".to_owned() } else { given.value.clone() });
        }
    }
    shown
}
