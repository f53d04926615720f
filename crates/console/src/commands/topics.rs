//! `kafka-topics`: topics created, listed, described, altered and deleted through the brokers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ottla_client::{
    Admin, Client, ClientError, ConfigEntry, ConfigResource, NewPartitions, NewTopic, Placement, Topic,
};
use ottla_model::{BrokerId, InvalidTopicName, TOPIC_NAME_LENGTH_MAX, TopicName, Uuid};
use ottla_protocol::messages::ListPartitionReassignmentsRequest;
use ottla_protocol::messages::list_partition_reassignments::OngoingPartitionReassignment;
use ottla_protocol::{ApiKey, ErrorCode};

use super::cluster::{self, Cluster, said};
use super::servers::fail;
use super::tools::{self, Failure};
use super::topic_description::{Filters, Reassignment, TopicDescription};
use super::topic_filter::{TopicFilter, is_internal};
use super::{Command, command_line};
use crate::logging;

pub const COMMAND: Command =
    Command { name: "kafka-topics", about: "create, list, describe, alter and delete topics", run };

/// Creates, lists, describes, alters and deletes topics.
#[derive(Debug, Default, Parser)]
#[command(name = "kafka-topics")]
struct Options {
    /// The brokers to begin with: HOST:PORT, comma-separated.
    #[arg(long, value_name = "HOST:PORT,..")]
    bootstrap_server: Option<String>,
    /// Find the brokers in this ZooKeeper instead, as Kafka 0.8.1 to 2.8 allowed; the brokers then do the work.
    #[arg(long, value_name = "HOST:PORT,..[/CHROOT]", conflicts_with = "bootstrap_server")]
    zookeeper: Option<String>,
    /// A file of settings of the client.
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// List all topics.
    #[arg(long)]
    list: bool,
    /// Create a topic.
    #[arg(long)]
    create: bool,
    /// Delete topics.
    #[arg(long)]
    delete: bool,
    /// Add partitions to topics.
    #[arg(long)]
    alter: bool,
    /// Show topics with their partitions.
    #[arg(long)]
    describe: bool,
    /// The topic; except with --create, a regular expression for whole names, in which a comma is "or".
    #[arg(long)]
    topic: Option<String>,
    /// Describe the topic with this id.
    #[arg(long, value_name = "ID")]
    topic_id: Option<String>,
    /// A configuration of the new topic, such as retention.ms=1000; may be given more than once.
    #[arg(long, value_name = "NAME=VALUE")]
    config: Vec<String>,
    /// Not here any more: kafka-configs removes configurations.
    #[arg(long, value_name = "NAME", hide = true)]
    delete_config: Vec<String>,
    /// How many partitions the topic shall have; with --create the broker's default. More partitions move keys to others.
    #[arg(long, value_name = "N")]
    partitions: Option<i32>,
    /// How many replicas each partition has [default: the broker's].
    #[arg(long, value_name = "N")]
    replication_factor: Option<i32>,
    /// The brokers of each partition, the preferred leader first, such as 0:1,1:2 for two partitions.
    #[arg(long, value_name = "ID:ID,ID:ID,..")]
    replica_assignment: Option<String>,
    /// Describe only partitions whose ISR is smaller than their list of replicas.
    #[arg(long)]
    under_replicated_partitions: bool,
    /// Describe only partitions whose leader is not there.
    #[arg(long)]
    unavailable_partitions: bool,
    /// Describe only partitions whose ISR is smaller than min.insync.replicas.
    #[arg(long)]
    under_min_isr_partitions: bool,
    /// Describe only partitions whose ISR is just min.insync.replicas.
    #[arg(long)]
    at_min_isr_partitions: bool,
    /// Describe only topics with configurations of their own.
    #[arg(long)]
    topics_with_overrides: bool,
    /// No topic that matches is no error.
    #[arg(long)]
    if_exists: bool,
    /// A topic that is there already is no error.
    #[arg(long)]
    if_not_exists: bool,
    /// Leave internal topics out.
    #[arg(long)]
    exclude_internal: bool,
    /// Accepted without effect: brokers answer in one piece.
    #[arg(long, value_name = "N", hide = true)]
    partition_size_limit_per_response: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    List,
    Create,
    Delete,
    Alter,
    Describe,
}

/// Options that mean something with some actions, or without some options, only: first that, then those.
const EXCLUSIONS: &[(&str, &[&str])] = &[
    ("config", &["list", "describe", "delete"]),
    ("delete-config", &["bootstrap-server", "zookeeper", "create", "describe", "list", "delete"]),
    ("partitions", &["list", "describe", "delete"]),
    ("replication-factor", &["list", "describe", "delete", "alter"]),
    ("replica-assignment", &["list", "describe", "delete"]),
    ("under-replicated-partitions", &["list", "create", "alter", "delete", "topics-with-overrides"]),
    ("under-min-isr-partitions", &["list", "create", "alter", "delete", "topics-with-overrides"]),
    ("at-min-isr-partitions", &["list", "create", "alter", "delete", "topics-with-overrides"]),
    ("unavailable-partitions", &["list", "create", "alter", "delete", "topics-with-overrides"]),
    ("topics-with-overrides", &["list", "create", "alter", "delete"]),
    ("if-exists", &["list", "create"]),
    ("if-not-exists", &["list", "describe", "alter", "delete"]),
    ("exclude-internal", &["create", "alter", "delete"]),
];

impl Options {
    /// The options that were given.
    fn given(&self) -> BTreeSet<&'static str> {
        let all = [
            ("bootstrap-server", self.bootstrap_server.is_some()),
            ("zookeeper", self.zookeeper.is_some()),
            ("list", self.list),
            ("create", self.create),
            ("delete", self.delete),
            ("alter", self.alter),
            ("describe", self.describe),
            ("topic", self.topic.is_some()),
            ("topic-id", self.topic_id.is_some()),
            ("config", !self.config.is_empty()),
            ("delete-config", !self.delete_config.is_empty()),
            ("partitions", self.partitions.is_some()),
            ("replication-factor", self.replication_factor.is_some()),
            ("replica-assignment", self.replica_assignment.is_some()),
            ("under-replicated-partitions", self.under_replicated_partitions),
            ("unavailable-partitions", self.unavailable_partitions),
            ("under-min-isr-partitions", self.under_min_isr_partitions),
            ("at-min-isr-partitions", self.at_min_isr_partitions),
            ("topics-with-overrides", self.topics_with_overrides),
            ("if-exists", self.if_exists),
            ("if-not-exists", self.if_not_exists),
            ("exclude-internal", self.exclude_internal),
        ];
        all.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// What is to be done, or Kafka's words for why the options do not go together.
    fn action(&self) -> Result<Action, String> {
        let actions = [
            (Action::List, self.list),
            (Action::Create, self.create),
            (Action::Delete, self.delete),
            (Action::Alter, self.alter),
            (Action::Describe, self.describe),
        ];
        let asked: Vec<Action> =
            actions.iter().filter(|(_, given)| *given).map(|(action, _)| *action).collect();
        let [action] = asked[..] else {
            return Err(
                "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
                    .into(),
            );
        };
        let given = self.given();
        let has = |name| given.contains(name);
        let missing = |name: &str| Err(format!("Missing required argument \"[{name}]\""));
        if !has("bootstrap-server") && !has("zookeeper") {
            return Err("--bootstrap-server must be specified".into());
        }
        if action == Action::Describe && has("if-exists") && !has("topic") && !has("topic-id") {
            return Err("--topic or --topic-id is required to describe a topic".into());
        }
        if !matches!(action, Action::List | Action::Describe) && !has("topic") {
            return missing("topic");
        }
        if action == Action::Alter {
            if has("config") {
                return Err("Option combination \"[[bootstrap-server], [config]]\" can't be used with option \"[alter]\" \
                     (the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"
                    .into());
            }
            if !has("partitions") {
                return missing("partitions");
            }
        }
        let by_hand = ("replica-assignment", &["partitions", "replication-factor"][..]);
        let exclusions = EXCLUSIONS.iter().chain((action == Action::Create).then_some(&by_hand));
        for (used, excluded) in exclusions.filter(|(used, _)| has(*used)) {
            if let Some(other) = excluded.iter().find(|other| has(**other)) {
                return Err(format!("Option \"[{used}]\" can't be used with option \"[{other}]\""));
            }
        }
        Ok(action)
    }

    fn filters(&self) -> Filters {
        Filters {
            under_replicated: self.under_replicated_partitions,
            unavailable: self.unavailable_partitions,
            under_min_isr: self.under_min_isr_partitions,
            at_min_isr: self.at_min_isr_partitions,
            with_overrides: self.topics_with_overrides,
        }
    }

    fn selects(&self) -> Result<impl Fn(&str) -> bool + use<>, Failure> {
        let filter = self.topic.as_deref().map(TopicFilter::new).transpose()?;
        let exclude_internal = self.exclude_internal;
        Ok(move |topic: &str| {
            filter.as_ref().is_none_or(|filter| filter.matches(topic))
                && !(exclude_internal && is_internal(topic))
        })
    }
}

fn run(arguments: Vec<String>) -> ExitCode {
    if arguments.len() <= 1 {
        return command_line::refuse::<Options>("Create, delete, describe, or change a topic.");
    }
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let action = match options.action() {
        Ok(action) => action,
        Err(complaint) => return command_line::refuse::<Options>(&complaint),
    };
    logging::to_stderr();
    let reached = Cluster::new(options.bootstrap_server.as_deref(), options.zookeeper.as_deref());
    let cluster = match reached.and_then(|cluster| cluster.with_config(options.command_config.as_deref())) {
        Ok(cluster) => cluster,
        Err(error) => return fail(error),
    };
    tools::run(async {
        let mut shown = String::new();
        let outcome = execute(&cluster, &options, action, &mut shown).await;
        let code = match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                shown.push_str(&format!("Error while executing topic command : {}\n", said(&*error)));
                ExitCode::FAILURE
            }
        };
        tools::print(&shown)?;
        Ok(code)
    })
}

/// What is shown stays shown if a later step fails.
async fn execute(
    cluster: &Cluster,
    options: &Options,
    action: Action,
    shown: &mut String,
) -> Result<(), Failure> {
    match action {
        Action::Create => {
            let topic = new_topic(options, shown)?;
            let admin = cluster.admin().await?;
            create(&admin, options, topic, shown).await
        }
        Action::List => list(&cluster.admin().await?, options, shown).await,
        Action::Describe => describe(&cluster.admin().await?, options, shown).await,
        Action::Alter => alter(&cluster.admin().await?, options).await,
        Action::Delete => delete(&cluster.admin().await?, options).await,
    }
}

/// Kafka's tool warns before it looks at anything else.
fn new_topic(options: &Options, shown: &mut String) -> Result<NewTopic, Failure> {
    let name = options.topic.as_deref().unwrap_or_default();
    let assignment = options.replica_assignment.as_deref().map(replica_assignment).transpose()?;
    let configs = options.config.iter().map(|text| config(text)).collect::<Result<_, _>>()?;
    if name.contains(['.', '_']) {
        shown.push_str(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. \
             To avoid issues it is best to use either, but not both.\n",
        );
    }
    let placement = match assignment {
        Some(replicas) => Placement::Replicas(replicas),
        None => {
            let factor = options.replication_factor.map(|factor| match i16::try_from(factor) {
                Ok(factor @ 1..) => Ok(factor),
                _ => Err("The replication factor must be between 1 and 32767 inclusive"),
            });
            let replication_factor = factor.transpose()?;
            if options.partitions.is_some_and(|partitions| partitions < 1) {
                return Err("The partitions must be greater than 0".into());
            }
            Placement::Counts { partitions: options.partitions, replication_factor }
        }
    };
    let name = TopicName::new(name).map_err(|refusal| name_refusal(name, &refusal))?;
    Ok(NewTopic { name, placement, configs })
}

fn name_refusal(name: &str, refusal: &InvalidTopicName) -> String {
    let name = name.escape_debug();
    match refusal {
        InvalidTopicName::Empty => "The given topic name '' cannot be represented in a request.".to_owned(),
        InvalidTopicName::Dots => format!("Topic name is invalid: '{name}' is not allowed"),
        InvalidTopicName::TooLong(_) => format!(
            "Topic name is invalid: the length of '{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
        ),
        InvalidTopicName::Character(_) => format!(
            "Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ),
    }
}

/// `name=value`, with blanks around the equals sign if need be.
fn config(text: &str) -> Result<(String, Option<String>), String> {
    match text.split('=').map(str::trim).collect::<Vec<_>>()[..] {
        [name, value] if !value.is_empty() => Ok((name.to_owned(), Some(value.to_owned()))),
        _ => Err("requirement failed: Invalid topic config: all configs to be added must be in the format \"key=val\"."
            .to_owned()),
    }
}

/// Reads `0:1,1:2`.
fn replica_assignment(list: &str) -> Result<Vec<Vec<BrokerId>>, String> {
    let mut partitions: Vec<Vec<BrokerId>> = Vec::new();
    for (number, text) in list.split(',').enumerate() {
        let id = |text: &str| match text.trim().parse() {
            Ok(id) => Ok(BrokerId(id)),
            Err(_) => Err(format!("For input string: \"{}\"", text.trim().escape_debug())),
        };
        let replicas = text.split(':').map(id).collect::<Result<Vec<BrokerId>, String>>()?;
        let shown = |ids: Vec<&BrokerId>, between: &str| {
            ids.into_iter().map(BrokerId::to_string).collect::<Vec<_>>().join(between)
        };
        let mut seen = BTreeSet::new();
        let twice: BTreeSet<&BrokerId> = replicas.iter().filter(|id| !seen.insert(**id)).collect();
        if !twice.is_empty() {
            let twice = shown(twice.into_iter().collect(), ",");
            return Err(format!("Partition replica lists may not contain duplicate entries: {twice}"));
        }
        if partitions.first().is_some_and(|first| first.len() != replicas.len()) {
            let replicas = shown(replicas.iter().collect(), ", ");
            return Err(format!("Partition {number} has different replication factor: [{replicas}]"));
        }
        partitions.push(replicas);
    }
    Ok(partitions)
}

async fn create(
    admin: &Admin,
    options: &Options,
    topic: NewTopic,
    shown: &mut String,
) -> Result<(), Failure> {
    for (name, outcome) in admin.create_topics(&[topic], false).await? {
        match outcome {
            Ok(_) => shown.push_str(&format!("Created topic {name}.\n")),
            Err(ClientError::Refused { code: ErrorCode::TopicAlreadyExists, .. })
                if options.if_not_exists => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn list(admin: &Admin, options: &Options, shown: &mut String) -> Result<(), Failure> {
    let selects = options.selects()?;
    let topics = admin.list_topics().await?;
    let names = topics.iter().map(|topic| topic.name.as_str()).filter(|name| selects(name));
    shown.push_str(&names.collect::<Vec<_>>().join("\n"));
    shown.push('\n');
    Ok(())
}

/// The topics that the options name. None at all is an error where one was asked for, unless told otherwise.
async fn selected(admin: &Admin, options: &Options) -> Result<Vec<Topic>, Failure> {
    let selects = options.selects()?;
    let mut topics = admin.list_topics().await?;
    topics.retain(|topic| selects(&topic.name));
    match &options.topic {
        Some(asked) if topics.is_empty() && !asked.is_empty() && !options.if_exists => {
            // "Optional[..]" is how Kafka's tool spells it, and what scripts look for.
            Err(format!("Topic 'Optional[{asked}]' does not exist as expected").into())
        }
        _ => Ok(topics),
    }
}

async fn selected_by_id(admin: &Admin, options: &Options, id: Uuid) -> Result<Vec<Topic>, Failure> {
    let mut topics = admin.list_topics().await?;
    topics.retain(|topic| topic.id == id && !(options.exclude_internal && is_internal(&topic.name)));
    if topics.is_empty() && !options.if_exists {
        return Err(format!("TopicId '{id}' does not exist as expected").into());
    }
    Ok(topics)
}

/// Topics whose configurations are asked for at once: some 3 kB each.
const TOPICS_PER_REQUEST: usize = 1000;

async fn describe(admin: &Admin, options: &Options, shown: &mut String) -> Result<(), Failure> {
    let id = options.topic_id.as_deref().map(str::parse::<Uuid>).transpose()?.filter(|id| !id.is_zero());
    let topics = match id {
        Some(id) => {
            if options.topic.is_some() && options.if_exists {
                shown.push_str(
                    "Only topic id will be used when both --topic and --topic-id are specified and topicId is not Uuid.ZERO_UUID\n",
                );
            }
            selected_by_id(admin, options, id).await?
        }
        None => selected(admin, options).await?,
    };
    if topics.is_empty() {
        return Ok(());
    }
    let filters = options.filters();
    let live: Vec<BrokerId> = admin.client().metadata().brokers.keys().copied().collect();
    let moving = reassignments(admin.client());
    let configs = async {
        let mut configs = Vec::new();
        let wanted = if filters.need_configs() { &topics[..] } else { &[] };
        for some in wanted.chunks(TOPICS_PER_REQUEST) {
            configs.extend(configs_of(admin, some).await?);
        }
        Ok::<_, Failure>(configs)
    };
    let (moving, configs) = tokio::try_join!(moving, configs)?;
    let (mut moving, mut configs) = (moving, configs.into_iter());
    for topic in topics {
        let described = TopicDescription {
            reassignments: moving.remove(topic.name.as_str()).unwrap_or_default(),
            configs: configs.next().unwrap_or_default(),
            topic,
        };
        described.write(filters, &live, shown);
    }
    Ok(())
}

async fn configs_of(admin: &Admin, topics: &[Topic]) -> Result<Vec<Vec<ConfigEntry>>, Failure> {
    let resources: Vec<ConfigResource> =
        topics.iter().map(|topic| ConfigResource::Topic(topic.name.clone())).collect();
    let described = admin.describe_configs(&resources, false).await?;
    described.into_iter().map(|(_, configs)| configs.map_err(Failure::from)).collect()
}

type Reassignments = BTreeMap<String, BTreeMap<i32, Reassignment>>;

/// What is being reassigned, by topic and partition. Nothing where brokers are too old to tell, or may not.
async fn reassignments(client: &Client) -> Result<Reassignments, Failure> {
    let Some(controller) = client.metadata().controller else { return Ok(Reassignments::new()) };
    let connection = client.broker(controller).await?;
    if connection.versions().served(ApiKey::ListPartitionReassignments).is_none() {
        return Ok(Reassignments::new());
    }
    let response = connection.request(&ListPartitionReassignmentsRequest::default()).await?;
    match ErrorCode::from_i16(response.error_code) {
        Some(ErrorCode::None | ErrorCode::ClusterAuthorizationFailed) => {}
        Some(code) => return Err(cluster::refused(code, response.error_message.as_deref()).into()),
        None => return Err(cluster::refused(ErrorCode::UnknownServerError, None).into()),
    }
    let reassignment = |partition: OngoingPartitionReassignment| {
        let brokers = |ids: Vec<i32>| ids.into_iter().map(BrokerId).collect();
        let moving = Reassignment {
            replicas: brokers(partition.replicas),
            adding: brokers(partition.adding_replicas),
            removing: brokers(partition.removing_replicas),
        };
        (partition.partition_index, moving)
    };
    let topics = response.topics.into_iter();
    Ok(topics
        .map(|topic| (topic.name.to_string(), topic.partitions.into_iter().map(reassignment).collect()))
        .collect())
}

async fn alter(admin: &Admin, options: &Options) -> Result<(), Failure> {
    let by_hand = options.replica_assignment.as_deref().filter(|list| !list.is_empty());
    let by_hand = by_hand.map(replica_assignment).transpose()?;
    let count = options.partitions.unwrap_or_default();
    let topics = selected(admin, options).await?;
    if topics.is_empty() {
        return Ok(());
    }
    let new_partitions = topics.into_iter().map(|topic| NewPartitions {
        // The list names the partitions that are there as well.
        replicas: by_hand.as_ref().map(|all| all.iter().skip(topic.partitions.len()).cloned().collect()),
        topic: topic.name,
        count,
    });
    let outcomes = admin.create_partitions(&new_partitions.collect::<Vec<_>>(), false).await?;
    every(outcomes)
}

async fn delete(admin: &Admin, options: &Options) -> Result<(), Failure> {
    let topics = selected(admin, options).await?;
    if topics.is_empty() {
        return Ok(());
    }
    let names: Vec<TopicName> = topics.into_iter().map(|topic| topic.name).collect();
    every(admin.delete_topics(&names).await?)
}

/// The first that failed, with how many more did.
fn every(outcomes: ottla_client::Outcomes<TopicName, ()>) -> Result<(), Failure> {
    let failed: Vec<ClientError> = outcomes.into_iter().filter_map(|(_, outcome)| outcome.err()).collect();
    let mut failed = failed.into_iter();
    let Some(first) = failed.next() else { return Ok(()) };
    match failed.len() {
        0 => Err(first.into()),
        more => {
            let mut text = said(&first);
            // Writing to a string cannot fail.
            let _ = write!(text, " ({more} more failed)");
            Err(text.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(arguments: &str) -> Option<String> {
        let words = std::iter::once("kafka-topics").chain(arguments.split_whitespace());
        Options::try_parse_from(words).unwrap().action().err()
    }

    #[test]
    fn options_that_do_not_go_together_are_refused_in_kafkas_words() {
        for (arguments, complaint) in [
            ("--list", "--bootstrap-server must be specified"),
            (
                "--list --create",
                "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
            ),
            ("--create --bootstrap-server b:1", "Missing required argument \"[topic]\""),
            ("--delete --bootstrap-server b:1", "Missing required argument \"[topic]\""),
            ("--alter --topic t --bootstrap-server b:1", "Missing required argument \"[partitions]\""),
            (
                "--describe --if-exists --bootstrap-server b:1",
                "--topic or --topic-id is required to describe a topic",
            ),
            (
                "--create --topic t --replica-assignment 0 --partitions 1 --bootstrap-server b:1",
                "Option \"[replica-assignment]\" can't be used with option \"[partitions]\"",
            ),
            (
                "--describe --topics-with-overrides --unavailable-partitions --bootstrap-server b:1",
                "Option \"[unavailable-partitions]\" can't be used with option \"[topics-with-overrides]\"",
            ),
            (
                "--alter --topic t --partitions 9 --replication-factor 2 --bootstrap-server b:1",
                "Option \"[replication-factor]\" can't be used with option \"[alter]\"",
            ),
            (
                "--create --topic t --if-exists --bootstrap-server b:1",
                "Option \"[if-exists]\" can't be used with option \"[create]\"",
            ),
            (
                "--alter --topic t --config x=y --bootstrap-server b:1",
                "Option combination \"[[bootstrap-server], [config]]\" can't be used with option \"[alter]\" \
                 (the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)",
            ),
        ] {
            assert_eq!(refusal(arguments).as_deref(), Some(complaint), "{arguments}");
        }
        for arguments in [
            "--list --bootstrap-server b:1 --exclude-internal --topic t",
            "--describe --zookeeper z:1",
            "--alter --topic t --partitions 3 --replica-assignment 0,0,0 --bootstrap-server b:1 --if-exists",
            "--create --topic t --replica-assignment 0 --config a=b --bootstrap-server b:1 --if-not-exists",
        ] {
            assert_eq!(refusal(arguments), None, "{arguments}");
        }
    }

    #[test]
    fn a_bad_topic_is_refused_before_anyone_is_asked() {
        let create = |change: &dyn Fn(&mut Options)| {
            let mut options = Options { create: true, topic: Some("t".to_owned()), ..Default::default() };
            change(&mut options);
            new_topic(&options, &mut String::new()).unwrap_err().to_string()
        };
        for (said, words) in [
            (create(&|o| o.partitions = Some(0)), "The partitions must be greater than 0"),
            (
                create(&|o| o.replication_factor = Some(0)),
                "The replication factor must be between 1 and 32767 inclusive",
            ),
            (
                create(&|o| o.topic = Some("a/b".to_owned())),
                "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
            ),
            (create(&|o| o.topic = Some(".".to_owned())), "Topic name is invalid: '.' is not allowed"),
            (
                create(&|o| o.topic = Some(String::new())),
                "The given topic name '' cannot be represented in a request.",
            ),
            (
                create(&|o| o.config = vec!["retention.ms".to_owned()]),
                "requirement failed: Invalid topic config: all configs to be added must be in the format \"key=val\".",
            ),
            (
                create(&|o| o.replica_assignment = Some("0:0".to_owned())),
                "Partition replica lists may not contain duplicate entries: 0",
            ),
            (
                create(&|o| o.replica_assignment = Some("0,0:1".to_owned())),
                "Partition 1 has different replication factor: [0, 1]",
            ),
            (create(&|o| o.replica_assignment = Some("x".to_owned())), "For input string: \"x\""),
        ] {
            assert_eq!(said, words);
        }
    }

    #[test]
    fn names_that_may_collide_are_warned_of() {
        for (name, warned) in [("a.b", true), ("a_b", true), ("a-b", false)] {
            let options = Options { topic: Some(name.to_owned()), ..Default::default() };
            let mut shown = String::new();
            new_topic(&options, &mut shown).unwrap();
            assert_eq!(shown.starts_with("WARNING: "), warned, "{name}");
        }
    }
}
