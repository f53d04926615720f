//! `kafka-configs`: configurations of topics, brokers and their loggers, shown and changed.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ottla_client::{Admin, ConfigChange, ConfigEntry, ConfigResource};
use ottla_model::{BrokerId, TopicName};

use super::client_properties;
use super::cluster::{Cluster, said};
use super::servers::fail;
use super::tools::{self, Failure};
use super::{Command, command_line};
use crate::logging;

pub const COMMAND: Command =
    Command { name: "kafka-configs", about: "show and change configurations of topics and brokers", run };

/// Shows and changes configurations of topics, brokers and their loggers.
#[derive(Debug, Default, Parser)]
#[command(name = "kafka-configs")]
struct Options {
    /// The brokers to begin with: HOST:PORT, comma-separated.
    #[arg(long, value_name = "HOST:PORT,..")]
    bootstrap_server: Option<String>,
    /// A file of settings of the client.
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// Show configurations: those that were set for the entity.
    #[arg(long)]
    describe: bool,
    /// Change configurations.
    #[arg(long)]
    alter: bool,
    /// Show every configuration, wherever it comes from.
    #[arg(long)]
    all: bool,
    /// What has the configurations: topics, brokers or broker-loggers.
    #[arg(long, value_name = "TYPE")]
    entity_type: Vec<String>,
    /// Its name: that of a topic, or a broker's id.
    #[arg(long, value_name = "NAME")]
    entity_name: Vec<String>,
    /// The defaults of all brokers.
    #[arg(long)]
    entity_default: bool,
    /// The same as --entity-type topics --entity-name.
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// The same as --entity-type brokers --entity-name.
    #[arg(long, value_name = "ID")]
    broker: Option<String>,
    /// The same as --entity-type brokers --entity-default.
    #[arg(long)]
    broker_defaults: bool,
    /// The same as --entity-type broker-loggers --entity-name.
    #[arg(long, value_name = "ID")]
    broker_logger: Option<String>,
    /// What to set; brackets hold commas together: k1=v1,k2=[v1,v2].
    #[arg(long, value_name = "K=V,..")]
    add_config: Option<String>,
    /// A properties file of what to set.
    #[arg(long, value_name = "FILE")]
    add_config_file: Option<PathBuf>,
    /// What to set back to its default, comma-separated.
    #[arg(long, value_name = "K,..", value_delimiter = ',')]
    delete_config: Vec<String>,
    /// Accepted without effect: nothing is asked.
    #[arg(long)]
    force: bool,
}

/// Kinds of entities, by the words of `--entity-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Topics,
    Brokers,
    BrokerLoggers,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Topics, Kind::Brokers, Kind::BrokerLoggers];

    fn plural(self) -> &'static str {
        match self {
            Kind::Topics => "topics",
            Kind::Brokers => "brokers",
            Kind::BrokerLoggers => "broker-loggers",
        }
    }

    fn singular(self) -> &'static str {
        match self {
            Kind::Topics => "topic",
            Kind::Brokers => "broker",
            Kind::BrokerLoggers => "broker-logger",
        }
    }

    fn resource(self, name: &str) -> Result<ConfigResource, Failure> {
        let id = || match name.parse() {
            Ok(id) => Ok(BrokerId(id)),
            Err(_) => Err(format!(
                "The entity name for {} must be a valid integer broker id, but it is: {name}",
                self.plural()
            )),
        };
        Ok(match self {
            Kind::Topics => ConfigResource::Topic(TopicName::new(name)?),
            Kind::Brokers if name.is_empty() => ConfigResource::Broker(None),
            Kind::Brokers => ConfigResource::Broker(Some(id()?)),
            Kind::BrokerLoggers => ConfigResource::BrokerLogger(id()?),
        })
    }
}

/// Where a value comes from, in [`ConfigEntry::source`], by the names that Kafka's tool shows.
const SOURCES: [&str; 7] = [
    "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
];

/// The options, understood.
#[derive(Debug)]
struct Plan {
    kind: Kind,
    /// `None` is every entity of the kind; an empty name is the default of all brokers.
    name: Option<String>,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Describe { all: bool },
    Alter { set: Vec<(String, String)>, delete: Vec<String> },
}

impl Plan {
    /// Complains in Kafka's words.
    fn of(options: &Options) -> Result<Plan, String> {
        let shortcuts = [
            (Kind::Topics, options.topic.as_deref()),
            (Kind::Brokers, options.broker.as_deref()),
            (Kind::Brokers, options.broker_defaults.then_some("")),
            (Kind::BrokerLoggers, options.broker_logger.as_deref()),
        ];
        let shortcuts: Vec<(Kind, &str)> =
            shortcuts.into_iter().filter_map(|(kind, name)| Some((kind, name?))).collect();
        let spelt_out =
            !options.entity_type.is_empty() || !options.entity_name.is_empty() || options.entity_default;
        if spelt_out && !shortcuts.is_empty() {
            return Err(
                "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
                    .into(),
            );
        }
        let (kind, name) = match (&options.entity_type[..], &shortcuts[..]) {
            ([], []) => return Err("At least one entity type must be specified".into()),
            ([], [(kind, name)]) => (*kind, Some((*name).to_owned())),
            ([kind], []) => {
                let known = Kind::ALL.iter().find(|known| known.plural() == kind);
                let name = options.entity_default.then(String::new);
                (*known.ok_or_else(|| unknown_kind(kind))?, options.entity_name.first().cloned().or(name))
            }
            _ => return Err("Only 'users' and 'clients' entity types may be specified together".into()),
        };
        if options.bootstrap_server.is_none() {
            return Err(
                "One of the required --bootstrap-server, --boostrap-controller, or --zookeeper arguments must be specified"
                    .into(),
            );
        }
        if name.as_deref() == Some("") && kind != Kind::Brokers {
            return Err(format!("{} have no default", kind.plural()));
        }
        let action = if options.alter {
            match (kind, &name) {
                (Kind::Brokers, None) => {
                    return Err(
                        "an entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
                            .into(),
                    );
                }
                (_, None) => {
                    return Err(format!(
                        "an entity name must be specified with --alter of {}",
                        kind.plural()
                    ));
                }
                (_, Some(_)) => changes(options)?,
            }
        } else {
            if kind == Kind::BrokerLoggers && name.is_none() {
                return Err(format!("an entity name must be specified with --describe of {}", kind.plural()));
            }
            Action::Describe { all: options.all }
        };
        Ok(Plan { kind, name, action })
    }
}

fn unknown_kind(kind: &str) -> String {
    match kind {
        "users" | "clients" | "ips" | "client-metrics" => {
            format!(
                "configurations of {kind} are not served here yet; topics, brokers and broker-loggers are"
            )
        }
        _ => format!(
            "Invalid entity type {kind}, the entity type must be one of topics, brokers, broker-loggers with a \
             --bootstrap-server argument"
        ),
    }
}

fn changes(options: &Options) -> Result<Action, String> {
    let set = match (&options.add_config, &options.add_config_file) {
        (Some(_), Some(_)) => {
            return Err("Only one of --add-config or --add-config-file must be specified".into());
        }
        (Some(list), None) => pairs(list)?,
        (None, Some(file)) => client_properties::read_file(file).map_err(|error| error.to_string())?,
        (None, None) if options.delete_config.is_empty() => {
            return Err(
                "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
                    .into(),
            );
        }
        (None, None) => Vec::new(),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some((key, _)) = set.iter().find(|(key, _)| !key.chars().all(legal)) {
        return Err(format!("Invalid character found for config key: {key}"));
    }
    let delete = options.delete_config.iter().map(|key| key.trim().to_owned()).collect();
    Ok(Action::Alter { set, delete })
}

/// Reads `k1=v1,k2=[v1,v2]`.
fn pairs(list: &str) -> Result<Vec<(String, String)>, String> {
    let mut inside = false;
    let entries = list.split(|c| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == ',' && !inside
    });
    let pair = |entry: &str| {
        let (key, value) = entry.split_once('=').ok_or_else(|| {
            "requirement failed: Invalid entity config: all configs to be added must be in the format \"key=val\"."
                .to_owned()
        })?;
        Ok((key.trim().to_owned(), value.replace(['[', ']'], "").trim().to_owned()))
    };
    entries.map(pair).collect()
}

fn run(arguments: Vec<String>) -> ExitCode {
    if arguments.len() <= 1 {
        let about = "This tool helps to manipulate and describe entity config for a topic or broker";
        return command_line::refuse::<Options>(about);
    }
    let spelt = arguments[1..].join(" ");
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    if options.describe == options.alter {
        return command_line::refuse::<Options>(
            "Command must include exactly one action: --describe, --alter",
        );
    }
    let plan = match Plan::of(&options) {
        Ok(plan) => plan,
        Err(complaint) => return fail(complaint),
    };
    logging::to_stderr();
    tools::run(async move {
        let mut shown = String::new();
        let outcome = execute(&options, &plan, &mut shown).await;
        tools::print(&shown)?;
        match outcome {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(Refused::Options(complaint)) => Ok(fail(complaint)),
            Err(Refused::Otherwise(error)) => Ok(fail(format!(
                "Error while executing config command with args '{spelt}'\n{}",
                said(&*error)
            ))),
        }
    })
}

enum Refused {
    /// Found out before anything was changed.
    Options(String),
    Otherwise(Failure),
}

impl<E: Into<Failure>> From<E> for Refused {
    fn from(error: E) -> Refused {
        Refused::Otherwise(error.into())
    }
}

async fn execute(options: &Options, plan: &Plan, shown: &mut String) -> Result<(), Refused> {
    let cluster = Cluster::new(options.bootstrap_server.as_deref(), None)?;
    let admin = cluster.with_config(options.command_config.as_deref())?.admin().await?;
    match (&plan.action, &plan.name) {
        (Action::Describe { all }, Some(name)) => describe(&admin, plan.kind, name, *all, shown).await,
        (Action::Describe { all }, None) => {
            for name in every(&admin, plan.kind).await? {
                describe(&admin, plan.kind, &name, *all, shown).await?;
            }
            Ok(())
        }
        (Action::Alter { set, delete }, Some(name)) => {
            alter(&admin, plan.kind, name, set, delete).await?;
            let kind = plan.kind;
            // Writing to a string cannot fail.
            let _ = match name.as_str() {
                "" => {
                    writeln!(shown, "Completed updating default config for {} in the cluster.", kind.plural())
                }
                name => writeln!(shown, "Completed updating config for {} {name}.", kind.singular()),
            };
            Ok(())
        }
        (Action::Alter { .. }, None) => Err(Refused::Options("nothing to alter was named".to_owned())),
    }
}

/// The names of all entities of a kind; brokers have their default last.
async fn every(admin: &Admin, kind: Kind) -> Result<Vec<String>, Failure> {
    Ok(match kind {
        Kind::Topics => admin.list_topics().await?.iter().map(|topic| topic.name.to_string()).collect(),
        Kind::Brokers | Kind::BrokerLoggers => {
            let metadata = admin.client().metadata();
            metadata.brokers.keys().map(BrokerId::to_string).chain([String::new()]).collect()
        }
    })
}

/// What was set for the entity itself, or all there is.
async fn entries(admin: &Admin, kind: Kind, name: &str, all: bool) -> Result<Vec<ConfigEntry>, Failure> {
    let resource = kind.resource(name)?;
    let own = match &resource {
        ConfigResource::Topic(_) => Some(1),
        ConfigResource::Broker(Some(_)) => Some(2),
        ConfigResource::Broker(None) => Some(3),
        ConfigResource::BrokerLogger(_) => None,
    };
    let mut found = Vec::new();
    for (_, outcome) in admin.describe_configs(&[resource], false).await? {
        found.extend(outcome?);
    }
    found.retain(|entry| all || own.is_none_or(|own| entry.source == own));
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

async fn describe(
    admin: &Admin,
    kind: Kind,
    name: &str,
    all: bool,
    shown: &mut String,
) -> Result<(), Refused> {
    let extent = if all { "All" } else { "Dynamic" };
    let _ = match name {
        "" => writeln!(shown, "Default configs for {} in the cluster are:", kind.plural()),
        name => writeln!(shown, "{extent} configs for {} {name} are:", kind.singular()),
    };
    for entry in entries(admin, kind, name, all).await? {
        write_entry(&entry, shown);
    }
    Ok(())
}

/// `  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}`
fn write_entry(entry: &ConfigEntry, shown: &mut String) {
    let source =
        |source: i8| usize::try_from(source).ok().and_then(|at| SOURCES.get(at)).unwrap_or(&SOURCES[0]);
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "null".to_owned());
    let synonyms: Vec<String> = entry
        .synonyms
        .iter()
        .map(|(name, held, from)| format!("{}:{name}={}", source(*from), value(held)))
        .collect();
    let _ = writeln!(
        shown,
        "  {}={} sensitive={} synonyms={{{}}}",
        entry.name,
        value(&entry.value),
        entry.sensitive,
        synonyms.join(", "),
    );
}

async fn alter(
    admin: &Admin,
    kind: Kind,
    name: &str,
    set: &[(String, String)],
    delete: &[String],
) -> Result<(), Refused> {
    if !delete.is_empty() {
        let found = entries(admin, kind, name, false).await?;
        let unset = |key: &&String| !found.iter().any(|entry| entry.name == **key);
        let invalid: Vec<&str> = delete.iter().filter(unset).map(String::as_str).collect();
        if !invalid.is_empty() {
            return Err(Refused::Options(format!("Invalid config(s): {}", invalid.join(","))));
        }
    }
    let set = set.iter().map(|(key, value)| ConfigChange::Set { key: key.clone(), value: value.clone() });
    let delete = delete.iter().map(|key| ConfigChange::Delete { key: key.clone() });
    let changes = vec![(kind.resource(name)?, set.chain(delete).collect())];
    for (_, outcome) in admin.alter_configs(&changes, false).await? {
        outcome?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &str) -> Result<Plan, String> {
        let words =
            ["kafka-configs", "--bootstrap-server", "b:1"].into_iter().chain(arguments.split_whitespace());
        Plan::of(&Options::try_parse_from(words).unwrap())
    }

    #[test]
    fn entities_are_named_in_either_way() {
        for (arguments, kind, name) in [
            ("--describe --topic t", Kind::Topics, Some("t")),
            ("--describe --entity-type topics --entity-name t", Kind::Topics, Some("t")),
            ("--describe --entity-type topics", Kind::Topics, None),
            ("--describe --broker 1", Kind::Brokers, Some("1")),
            ("--describe --broker-defaults", Kind::Brokers, Some("")),
            ("--describe --entity-type brokers --entity-default", Kind::Brokers, Some("")),
            ("--describe --broker-logger 1", Kind::BrokerLoggers, Some("1")),
        ] {
            let plan = plan(arguments).unwrap();
            assert_eq!((plan.kind, plan.name.as_deref()), (kind, name), "{arguments}");
        }
    }

    #[test]
    fn options_that_do_not_go_together_are_refused_in_kafkas_words() {
        for (arguments, words) in [
            ("--describe", "At least one entity type must be specified"),
            (
                "--describe --topic t --entity-type topics",
                "--entity-{type,name,default} should not be used in conjunction with specific entity flags",
            ),
            (
                "--alter --topic t",
                "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter",
            ),
            (
                "--alter --entity-type topics --add-config a=b",
                "an entity name must be specified with --alter of topics",
            ),
            (
                "--alter --topic t --add-config a",
                "requirement failed: Invalid entity config: all configs to be added must be in the format \"key=val\".",
            ),
            ("--alter --topic t --add-config a/b=c", "Invalid character found for config key: a/b"),
        ] {
            assert_eq!(plan(arguments).unwrap_err(), words, "{arguments}");
        }
    }

    #[test]
    fn brackets_hold_commas_together() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            pairs("cleanup.policy=[compact,delete], retention.ms = 5").unwrap(),
            [pair("cleanup.policy", "compact,delete"), pair("retention.ms", "5")]
        );
        assert_eq!(pairs("a=").unwrap(), [pair("a", "")]);
    }

    #[test]
    fn an_entry_is_shown_with_every_place_that_sets_it() {
        let entry = ConfigEntry {
            name: "cleanup.policy".to_owned(),
            value: Some("compact".to_owned()),
            read_only: false,
            sensitive: false,
            source: 1,
            synonyms: vec![
                ("cleanup.policy".to_owned(), Some("compact".to_owned()), 1),
                ("log.cleanup.policy".to_owned(), Some("delete".to_owned()), 5),
            ],
            documentation: None,
        };
        let mut shown = String::new();
        write_entry(&entry, &mut shown);
        assert_eq!(
            shown,
            "  cleanup.policy=compact sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact, \
             DEFAULT_CONFIG:log.cleanup.policy=delete}\n"
        );
    }
}
