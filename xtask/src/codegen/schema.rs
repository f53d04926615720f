//! The schema notation: one text per API, one line per field.
//!
//! ```text
//! # Metadata: topics, leaders and brokers of the cluster.
//! api Metadata 3
//!
//! request 0-12 flexible 9+
//!     # v0 empty = all topics; v1+ null = all, empty = none.
//!     topics []MetadataRequestTopic nullable 1+
//!         topic_id uuid 10+ ignorable
//!         name string nullable 10+
//!     allow_auto_topic_creation bool 4+ default true
//! ```
//!
//! - `api NAME KEY`, then `request VERSIONS flexible VERSIONS|none` and `response ...`. Data that is no API: `data NAME VERSIONS flexible ...`,
//!   any number in a file. `struct NAME [VERSIONS]` declares a struct that several fields use.
//! - Fields: `name type [VERSIONS] [nullable [VERSIONS]] [default X] [ignorable] [tag N [VERSIONS]] [flexible none]`, where
//!   the versions are those of the message when left out. A struct's fields follow its field, four spaces further in.
//! - Types: bool int8 int16 int32 int64 uint16 uint32 float64 string bytes records uuid, a struct's name, and `[]` of those.
//! - Versions: `3`, `1-4`, `3+`. A comment above a line, or at its end, becomes its documentation; one at the top of the file that
//!   an empty line or the `api` line follows is the module's.

use std::fmt;

/// A run of versions, both ends included; `3+` ends at [`Versions::LATEST`] until it meets those of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    pub first: i16,
    pub last: i16,
}

impl Versions {
    pub const LATEST: i16 = i16::MAX;
    pub const ALL: Versions = Versions { first: 0, last: Versions::LATEST };

    pub fn contains(self, version: i16) -> bool {
        (self.first..=self.last).contains(&version)
    }

    pub fn covers(self, other: Versions) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    pub fn intersection(self, other: Versions) -> Option<Versions> {
        let both = Versions { first: self.first.max(other.first), last: self.last.min(other.last) };
        (both.first <= both.last).then_some(both)
    }

    /// The shortest run that covers both.
    pub fn hull(self, other: Versions) -> Versions {
        Versions { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    fn parse(text: &str) -> Option<Versions> {
        let number = |text: &str| text.parse::<i16>().ok().filter(|version| *version >= 0);
        if let Some(first) = text.strip_suffix('+') {
            return Some(Versions { first: number(first)?, last: Versions::LATEST });
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let versions = Versions { first: number(first)?, last: number(last)? };
        (versions.first <= versions.last).then_some(versions)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Versions { first, last: Versions::LATEST } => write!(f, "{first}+"),
            Versions { first, last } if first == last => write!(f, "{first}"),
            Versions { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint16,
    Uint32,
    Float64,
    String,
    Bytes,
    Records,
    Uuid,
    Array(Box<Type>),
    Struct(String),
}

impl Type {
    fn parse(text: &str) -> Option<Type> {
        if let Some(element) = text.strip_prefix("[]") {
            return Some(Type::Array(Box::new(Type::parse(element)?)));
        }
        Some(match text {
            "bool" => Type::Bool,
            "int8" => Type::Int8,
            "int16" => Type::Int16,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "uint16" => Type::Uint16,
            "uint32" => Type::Uint32,
            "float64" => Type::Float64,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "records" => Type::Records,
            "uuid" => Type::Uuid,
            name if is_type_name(name) => Type::Struct(name.to_owned()),
            _ => return None,
        })
    }

    /// The struct that a field of this type brings with it.
    pub fn struct_name(&self) -> Option<&str> {
        match self {
            Type::Array(element) => element.struct_name(),
            Type::Struct(name) => Some(name),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Field {
    pub line: usize,
    pub doc: Vec<String>,
    pub name: String,
    pub ty: Type,
    /// Versions that carry the field, within those of its struct.
    pub versions: Versions,
    pub nullable: Option<Versions>,
    /// As written; `None` is the type's own zero.
    pub default: Option<String>,
    /// Left out of versions that lack it, whatever its value; others must then have the default.
    pub ignorable: bool,
    pub tag: Option<(u32, Versions)>,
    /// Keeps the fixed-size length in flexible versions.
    pub never_flexible: bool,
}

impl Field {
    /// The tag the field has in this version; in others it is written in line.
    pub fn tag_in(&self, version: i16) -> Option<u32> {
        self.tag.filter(|(_, versions)| versions.contains(version)).map(|(tag, _)| tag)
    }
}

#[derive(Debug, Clone)]
pub struct Struct {
    pub line: usize,
    pub doc: Vec<String>,
    pub name: String,
    /// Every version in which some message can hold the struct.
    pub versions: Versions,
    /// Of the messages that hold it: the first flexible version.
    pub flexible: Option<i16>,
    pub fields: Vec<Field>,
}

impl Struct {
    pub fn is_flexible(&self, version: i16) -> bool {
        self.flexible.is_some_and(|first| version >= first)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Request,
    Response,
    Data,
}

#[derive(Debug, Clone)]
pub struct Message {
    pub role: Role,
    pub body: Struct,
}

#[derive(Debug, Clone)]
pub struct Api {
    pub name: String,
    pub key: i16,
}

/// One schema file, checked: names resolve, versions lie within those around them, tags count up from 0.
#[derive(Debug, Clone)]
pub struct Schema {
    pub doc: Vec<String>,
    pub api: Option<Api>,
    pub messages: Vec<Message>,
    /// All structs below the messages, in the order in which the file declares them.
    pub structs: Vec<Struct>,
}

impl Schema {
    /// The struct of that name; every name in a parsed schema has one.
    pub fn structure(&self, name: &str) -> &Struct {
        self.structs.iter().find(|s| s.name == name).expect("names are resolved by the parser")
    }
}

/// What is wrong with a schema, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct SchemaError {
    pub file: String,
    pub line: usize,
    pub problem: String,
}

/// Reads the schema `text`; `file` is only for errors.
pub fn parse(file: &str, text: &str) -> Result<Schema, SchemaError> {
    let located = |(line, problem)| SchemaError { file: file.to_owned(), line, problem };
    let mut schema = Parser::default().run(text).map_err(located)?;
    resolve(&mut schema).map_err(located)?;
    check(&schema).map_err(located)?;
    Ok(schema)
}

type Problem = (usize, String);

/// A declaration that is open for fields, as deep as its index in [`Parser::open`].
enum Open {
    Message(usize),
    Struct(usize),
    /// A field. If it names a struct and fields follow, they declare that struct.
    Field {
        line: usize,
        names: Option<String>,
    },
}

#[derive(Default)]
struct Parser {
    doc: Option<Vec<String>>,
    api: Option<Api>,
    messages: Vec<Message>,
    structs: Vec<Struct>,
    comment: Vec<String>,
    open: Vec<Open>,
}

impl Parser {
    fn run(mut self, text: &str) -> Result<Schema, Problem> {
        for (number, line) in (1..).zip(text.lines()) {
            self.line(number, line).map_err(|problem| (number, problem))?;
        }
        if self.messages.is_empty() {
            return Err((1, "no message in this file".to_owned()));
        }
        Ok(Schema {
            doc: self.doc.unwrap_or_default(),
            api: self.api,
            messages: self.messages,
            structs: self.structs,
        })
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let trimmed = line.trim();
        if let Some(comment) = trimmed.strip_prefix('#') {
            self.comment.push(comment.strip_prefix(' ').unwrap_or(comment).to_owned());
            return Ok(());
        }
        if trimmed.is_empty() {
            self.end_comment();
            return Ok(());
        }
        let spaces = line.len() - line.trim_start().len();
        if line.contains('\t') || !spaces.is_multiple_of(4) {
            return Err("indent with four spaces a level".to_owned());
        }
        let depth = spaces / 4;
        if depth > self.open.len() {
            return Err("indented deeper than any struct goes".to_owned());
        }
        self.open.truncate(depth);

        let (declaration, remark) = match trimmed.split_once(" #") {
            Some((declaration, remark)) => (declaration, Some(remark.trim())),
            None => (trimmed, None),
        };
        let mut words = Words(declaration.split_whitespace().collect());
        if depth == 0 && words.take_if("api") {
            return self.api_line(words);
        }
        let mut doc = std::mem::take(&mut self.comment);
        doc.extend(remark.map(str::to_owned));
        let opened =
            if depth == 0 { self.declaration(number, words, doc)? } else { self.field(number, words, doc)? };
        self.open.push(opened);
        Ok(())
    }

    /// An empty line or the `api` line: the first comment before one belongs to the module, others to nothing.
    fn end_comment(&mut self) {
        let comment = std::mem::take(&mut self.comment);
        if self.doc.is_none() && self.messages.is_empty() && !comment.is_empty() {
            self.doc = Some(comment);
        }
    }

    fn api_line(&mut self, mut words: Words<'_>) -> Result<(), String> {
        self.end_comment();
        let name = words.type_name("the API's name")?;
        let key = words.number("the API's key")?;
        words.end()?;
        if self.api.replace(Api { name, key }).is_some() {
            return Err("a second `api` in one file".to_owned());
        }
        Ok(())
    }

    fn declaration(&mut self, line: usize, mut words: Words<'_>, doc: Vec<String>) -> Result<Open, String> {
        let keyword = words.next("a declaration")?;
        if keyword == "struct" {
            let name = words.type_name("the struct's name")?;
            let versions = words.versions()?.unwrap_or(Versions::ALL);
            words.end()?;
            return self.open_struct(Struct {
                line,
                doc,
                name,
                versions,
                flexible: None,
                fields: Vec::new(),
            });
        }
        let (role, name) = match (keyword, &self.api) {
            ("data", None) => (Role::Data, words.type_name("the message's name")?),
            ("request", Some(api)) => (Role::Request, format!("{}Request", api.name)),
            ("response", Some(api)) => (Role::Response, format!("{}Response", api.name)),
            ("data" | "request" | "response", _) => {
                return Err("`request` and `response` need an `api` line above them, `data` must have none"
                    .to_owned());
            }
            _ => {
                return Err(format!("`{keyword}` where api, request, response, data or struct was expected"));
            }
        };
        let versions = words.versions()?.ok_or("the message's versions are missing")?;
        if versions.last == Versions::LATEST {
            return Err("a message's versions end somewhere: write `0-3`".to_owned());
        }
        if !words.take_if("flexible") {
            return Err("`flexible VERSIONS` or `flexible none` is missing".to_owned());
        }
        let flexible = match words.next("`none` or versions")? {
            "none" => None,
            text => match Versions::parse(text) {
                Some(Versions { first, last: Versions::LATEST }) => Some(first),
                _ => return Err("flexible versions never end: write `9+`".to_owned()),
            },
        };
        words.end()?;
        let body = Struct { line, doc, name, versions, flexible, fields: Vec::new() };
        self.messages.push(Message { role, body });
        Ok(Open::Message(self.messages.len() - 1))
    }

    fn open_struct(&mut self, structure: Struct) -> Result<Open, String> {
        if self.structs.iter().any(|s| s.name == structure.name) {
            return Err(format!("struct {} is declared twice", structure.name));
        }
        self.structs.push(structure);
        Ok(Open::Struct(self.structs.len() - 1))
    }

    fn field(&mut self, line: usize, mut words: Words<'_>, doc: Vec<String>) -> Result<Open, String> {
        let name = words.next("a field")?.to_owned();
        if !is_field_name(&name) {
            return Err(format!("`{name}` is no field name: lower case, digits and _"));
        }
        let text = words.next("the field's type")?;
        let ty = Type::parse(text).ok_or_else(|| format!("`{text}` is no type"))?;
        let mut field = Field {
            line,
            doc,
            name,
            ty,
            versions: words.versions()?.unwrap_or(Versions::ALL),
            nullable: None,
            default: None,
            ignorable: false,
            tag: None,
            never_flexible: false,
        };
        while let Some(word) = words.take() {
            match word {
                "nullable" => field.nullable = Some(words.versions()?.unwrap_or(Versions::ALL)),
                "default" => {
                    field.default = Some(words.next("the default")?.trim_matches('"').to_owned());
                }
                "ignorable" => field.ignorable = true,
                "tag" => {
                    let tag = words.number("the tag")?;
                    field.tag = Some((tag, words.versions()?.unwrap_or(Versions::ALL)));
                }
                "flexible" if words.take_if("none") => field.never_flexible = true,
                _ => return Err(format!("`{word}` where nullable, default, ignorable or tag was expected")),
            }
        }
        if field.ty == Type::Records && field.nullable.is_none() {
            field.nullable = Some(Versions::ALL);
        }
        let opened = Open::Field { line, names: field.ty.struct_name().map(str::to_owned) };
        let owner = self.owner()?;
        if owner.fields.iter().any(|f| f.name == field.name) {
            return Err(format!("{}.{} is declared twice", owner.name, field.name));
        }
        owner.fields.push(field);
        Ok(opened)
    }

    /// The struct that a field at this depth belongs to.
    fn owner(&mut self) -> Result<&mut Struct, String> {
        if let Some(Open::Field { line, names: Some(name) }) = self.open.last() {
            let (line, name) = (*line, name.clone());
            let opened = self.open_struct(Struct {
                line,
                doc: Vec::new(),
                name,
                versions: Versions::ALL,
                flexible: None,
                fields: Vec::new(),
            })?;
            self.open.pop();
            self.open.push(opened);
        }
        match self.open.last() {
            Some(Open::Message(index)) => Ok(&mut self.messages[*index].body),
            Some(Open::Struct(index)) => Ok(&mut self.structs[*index]),
            Some(Open::Field { .. }) | None => Err("no struct that these fields could belong to".to_owned()),
        }
    }
}

/// The words of a line, front to back.
struct Words<'a>(std::collections::VecDeque<&'a str>);

impl<'a> Words<'a> {
    fn take(&mut self) -> Option<&'a str> {
        self.0.pop_front()
    }

    fn take_if(&mut self, word: &str) -> bool {
        self.0.pop_front_if(|next| *next == word).is_some()
    }

    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.take().ok_or_else(|| format!("{what} is missing"))
    }

    fn number<N: std::str::FromStr>(&mut self, what: &str) -> Result<N, String> {
        let word = self.next(what)?;
        word.parse().map_err(|_| format!("{what} is a number, not `{word}`"))
    }

    fn type_name(&mut self, what: &str) -> Result<String, String> {
        let word = self.next(what)?;
        if is_type_name(word) { Ok(word.to_owned()) } else { Err(format!("{what} is not `{word}`")) }
    }

    /// Versions, if the next word begins like some.
    fn versions(&mut self) -> Result<Option<Versions>, String> {
        let Some(word) = self.0.pop_front_if(|next| next.starts_with(|c: char| c.is_ascii_digit())) else {
            return Ok(None);
        };
        Versions::parse(word).map(Some).ok_or_else(|| format!("`{word}` is no range of versions"))
    }

    fn end(self) -> Result<(), String> {
        match self.0.front() {
            None => Ok(()),
            Some(word) => Err(format!("`{word}` is one word too many")),
        }
    }
}

fn is_type_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(|c| c.is_ascii_alphanumeric())
}

fn is_field_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Hands versions and flexibility down from each message to the structs that it reaches.
fn resolve(schema: &mut Schema) -> Result<(), Problem> {
    let mut reached: Vec<Option<(Versions, Option<i16>)>> = vec![None; schema.structs.len()];
    for message in &schema.messages {
        reach(
            schema,
            &message.body,
            message.body.versions,
            message.body.flexible,
            &mut reached,
            &mut Vec::new(),
        )?;
    }
    for (structure, reached) in schema.structs.iter_mut().zip(reached) {
        let Some((versions, flexible)) = reached else {
            return Err((structure.line, format!("no message holds struct {}", structure.name)));
        };
        structure.versions = versions;
        structure.flexible = flexible;
    }
    Ok(())
}

fn reach<'s>(
    schema: &'s Schema,
    structure: &'s Struct,
    versions: Versions,
    flexible: Option<i16>,
    reached: &mut [Option<(Versions, Option<i16>)>],
    path: &mut Vec<&'s str>,
) -> Result<(), Problem> {
    if path.contains(&structure.name.as_str()) {
        return Err((structure.line, format!("struct {} holds itself", structure.name)));
    }
    path.push(&structure.name);
    for field in &structure.fields {
        let Some(within) = versions.intersection(field.versions) else {
            continue;
        };
        let Some(name) = field.ty.struct_name() else { continue };
        let index = schema
            .structs
            .iter()
            .position(|s| s.name == name)
            .ok_or_else(|| (field.line, format!("no struct {name} in this file, and no fields below")))?;
        let nested = &schema.structs[index];
        let Some(within) = within.intersection(nested.versions) else {
            return Err((field.line, format!("struct {name} has no version in common with this field")));
        };
        match &mut reached[index] {
            Some((_, other)) if *other != flexible => {
                return Err((
                    field.line,
                    format!("struct {name} is used by messages that become flexible at different versions"),
                ));
            }
            Some((hull, _)) => *hull = hull.hull(within),
            empty => *empty = Some((within, flexible)),
        }
        reach(schema, nested, within, flexible, reached, path)?;
    }
    path.pop();
    Ok(())
}

/// What the notation allows but no message can mean.
fn check(schema: &Schema) -> Result<(), Problem> {
    if let Some(api) = &schema.api {
        let roles: Vec<Role> = schema.messages.iter().map(|message| message.role).collect();
        if roles != [Role::Request, Role::Response] {
            return Err((1, format!("api {} needs one request, then one response", api.name)));
        }
    }
    for structure in schema.messages.iter().map(|message| &message.body).chain(&schema.structs) {
        for field in &structure.fields {
            check_field(structure, field).map_err(|problem| (field.line, problem))?;
        }
    }
    Ok(())
}

fn check_field(structure: &Struct, field: &Field) -> Result<(), String> {
    let name = &field.name;
    let Some(versions) = structure.versions.intersection(field.versions) else {
        return Err(format!(
            "{name} is in no version of {}, which has {}",
            structure.name, structure.versions
        ));
    };
    if field.versions.last != Versions::LATEST && field.versions.last > structure.versions.last {
        return Err(format!(
            "{name} ends after {}, which has versions {}",
            structure.name, structure.versions
        ));
    }
    let has_null =
        matches!(field.ty, Type::String | Type::Bytes | Type::Records | Type::Array(_) | Type::Struct(_));
    if field.nullable.is_some() && !has_null {
        return Err(format!("{name} cannot be null: its type has no such value"));
    }
    if let Some((tag, tagged)) = field.tag {
        let in_both =
            tagged.intersection(versions).ok_or(format!("{name} has a tag in no version of its own"))?;
        if !structure.is_flexible(in_both.first) {
            return Err(format!("{name} is tagged before {} is flexible", structure.name));
        }
        if tag >= 64 {
            return Err(format!("tag {tag} of {name}: known tags are below 64"));
        }
        let ascending = structure.fields.iter().take_while(|f| f.name != *name).filter_map(|f| f.tag);
        if ascending.map(|(other, _)| other).any(|other| other >= tag) {
            return Err(format!("tag {tag} of {name} is not above the ones before it"));
        }
    }
    let Some(default) = &field.default else { return Ok(()) };
    let fits = match &field.ty {
        _ if default == "null" => field.nullable.is_some(),
        Type::Bool => matches!(default.as_str(), "true" | "false"),
        Type::Int8 => default.parse::<i8>().is_ok(),
        Type::Int16 => default.parse::<i16>().is_ok(),
        Type::Int32 => default.parse::<i32>().is_ok(),
        Type::Int64 => default.parse::<i64>().is_ok(),
        Type::Uint16 => default.parse::<u16>().is_ok(),
        Type::Uint32 => default.parse::<u32>().is_ok(),
        Type::Float64 => default.parse::<f64>().is_ok(),
        Type::String => true,
        Type::Bytes | Type::Array(_) | Type::Uuid => default.is_empty(),
        Type::Records | Type::Struct(_) => false,
    };
    if fits { Ok(()) } else { Err(format!("`{default}` is no default for {name}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: &str = "\
# Ping: are you there?
api Ping 7

request 0-3 flexible 2+
    # Whom.
    peers []Peer nullable 1+
        id int32 # The broker's.
        rack string 3+ nullable default null ignorable
    note string 2+ tag 0 3+

response 0-3 flexible 2+
    throttle_time_ms int32 1+ ignorable
";

    #[test]
    fn a_schema_reads_as_it_is_written() {
        let schema = parse("ping.schema", PING).unwrap();
        assert_eq!(schema.doc, ["Ping: are you there?"]);
        let request = &schema.messages[0].body;
        assert_eq!(
            (request.name.as_str(), request.versions, request.flexible),
            ("PingRequest", Versions { first: 0, last: 3 }, Some(2))
        );
        assert_eq!(request.fields[0].doc, ["Whom."]);
        assert_eq!(request.fields[0].nullable, Some(Versions { first: 1, last: Versions::LATEST }));
        assert_eq!(request.fields[1].tag, Some((0, Versions { first: 3, last: Versions::LATEST })));
        assert_eq!((request.fields[1].tag_in(2), request.fields[1].tag_in(3)), (None, Some(0)));
        let peer = schema.structure("Peer");
        assert_eq!(peer.fields[0].doc, ["The broker's."]);
        assert_eq!(peer.fields[1].default.as_deref(), Some("null"));
        assert!(peer.fields[1].ignorable);
        assert_eq!((peer.versions, peer.flexible), (request.versions, Some(2)));
    }

    #[test]
    fn a_shared_struct_has_the_versions_of_all_its_uses() {
        let text = "api A 1\n\nstruct Node\n    id int32\n\nrequest 0-4 flexible none\n    a Node 1\n    b []Node 3+\nresponse 0-4 flexible none\n";
        let schema = parse("a.schema", text).unwrap();
        assert_eq!(schema.structure("Node").versions, Versions { first: 1, last: 4 });
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let api =
            |fields: &str| format!("api A 1\nrequest 0-3 flexible 2+\n{fields}response 0-3 flexible 2+\n");
        for (why, text, line, problem) in [
            ("empty file", String::new(), 1, "no message"),
            ("unknown keyword", "message A 1\n".to_owned(), 1, "`message` where api"),
            ("no response", "api A 1\nrequest 0-3 flexible none\n".to_owned(), 1, "needs one request"),
            ("odd indent", api("   a int32\n"), 3, "four spaces"),
            ("no such type", api("    a int31\n"), 3, "`int31` is no type"),
            ("versions backwards", api("    a int32 3-1\n"), 3, "no range of versions"),
            ("beyond the message", api("    a int32 4+\n"), 3, "in no version of ARequest"),
            ("ends too late", api("    a int32 1-9\n"), 3, "ends after ARequest"),
            ("unknown word", api("    a int32 optional\n"), 3, "`optional` where"),
            ("null integer", api("    a int32 nullable 1+\n"), 3, "cannot be null"),
            ("tag too early", api("    a int32 tag 0 1+\n"), 3, "tagged before"),
            ("tags descend", api("    a int32 2+ tag 1\n    b int32 2+ tag 0\n"), 4, "not above"),
            ("default too large", api("    a int8 default 128\n"), 3, "`128` is no default"),
            ("null default", api("    a string default null\n"), 3, "`null` is no default"),
            ("field twice", api("    a int8\n    a int8\n"), 4, "declared twice"),
            ("fields of a number", api("    a int8\n        b int8\n"), 4, "could belong to"),
            ("struct without fields", api("    a Thing\n"), 3, "no struct Thing"),
            ("endless nesting", api("    a Thing\n        b Thing\n"), 3, "holds itself"),
            ("unused struct", api("") + "struct Thing\n    a int8\n", 4, "no message holds"),
            (
                "flexible in two ways",
                "data A 0-1 flexible 1+\n    t Thing\n        a int8\ndata B 0-1 flexible none\n    t Thing\n".to_owned(),
                5,
                "different versions",
            ),
        ] {
            let error = parse("a.schema", &text).map(|_| ()).expect_err(why);
            assert_eq!(error.line, line, "{why}: {error}");
            assert!(error.problem.contains(problem), "{why}: {error}");
        }
    }
}
