//! What a configuration key is: one declaration, from which parsing, validation, DescribeConfigs, dynamic
//! updates and the documentation follow.

use std::fmt;
use std::marker::PhantomData;

use super::ProtocolVersion;

/// One minute and one hour, in milliseconds.
pub(super) const MINUTE: i64 = 60_000;
pub(super) const HOUR: i64 = 60 * MINUTE;

/// What `compression.type` may be.
pub(super) const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];

/// Everything there is to know of a key.
#[derive(Debug)]
pub struct Definition {
    pub name: &'static str,
    pub kind: Kind,
    /// As a file would spell it; `None` where the default is null.
    pub default: Option<&'static str>,
    pub valid: Valid,
    pub importance: Importance,
    pub update: Update,
    /// One or two sentences, in Markdown.
    pub doc: &'static str,
    pub reach: Reach,
    /// Broker keys that decide where this one is not given, the first that has a value, and what to multiply
    /// it with: hours where this one counts milliseconds.
    pub synonyms: &'static [(&'static str, i64)],
    /// Heading under which the documentation lists it.
    pub section: &'static str,
}

/// A handle on a definition that knows the Rust type of its value.
#[derive(Debug)]
pub struct Key<T> {
    pub definition: &'static Definition,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T: Typed> Key<T> {
    pub(super) const fn new(definition: &'static Definition) -> Key<T> {
        Key { definition, kind: PhantomData }
    }

    pub fn name(self) -> &'static str {
        self.definition.name
    }
}

/// Kafka's types of values, as DescribeConfigs numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Boolean = 1,
    String = 2,
    Int = 3,
    Short = 4,
    Long = 5,
    Double = 6,
    List = 7,
    Class = 8,
    Password = 9,
}

impl Kind {
    /// Whether a value is kept from logs and answers.
    pub fn is_sensitive(self) -> bool {
        self == Kind::Password
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Boolean => "BOOLEAN",
            Kind::String => "STRING",
            Kind::Int => "INT",
            Kind::Short => "SHORT",
            Kind::Long => "LONG",
            Kind::Double => "DOUBLE",
            Kind::List => "LIST",
            Kind::Class => "CLASS",
            Kind::Password => "PASSWORD",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    High,
    Medium,
    Low,
}

/// Whether a running broker can be given another value (KIP-226).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    ReadOnly,
    PerBroker,
    ClusterWide,
}

/// Whether a key does anything here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Used,
    /// Kafka hides these from DescribeConfigs and its documentation.
    Internal,
    /// Known, checked and shown, but without effect: it is about the JVM, KRaft or tiered storage.
    NoEffect,
}

/// What a value must be, beyond its type.
#[derive(Debug, Clone, Copy)]
pub enum Valid {
    Any,
    AtLeast(i64),
    Between(i64, i64),
    /// In a range, or this one value outside it.
    BetweenOr(i64, i64, i64),
    Fraction(f64, f64),
    OneOf(&'static [&'static str]),
    OneOfIgnoringCase(&'static [&'static str]),
    /// Every element of a list.
    EachOf(&'static [&'static str]),
    NonEmpty,
    /// A version of Kafka's protocol, such as `2.8` or `2.8-IV1`.
    ProtocolVersion,
    /// `*`, or pairs `partition:broker`.
    ThrottledReplicas,
}

/// A value that has been parsed and found valid.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Boolean(bool),
    String(String),
    Int(i32),
    Short(i16),
    Long(i64),
    Double(f64),
    List(Vec<String>),
    Class(String),
    Password(Password),
}

impl fmt::Display for Value {
    /// As Kafka shows values in DescribeConfigs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(value) => value.fmt(f),
            Value::String(value) | Value::Class(value) => value.fmt(f),
            Value::Int(value) => value.fmt(f),
            Value::Short(value) => value.fmt(f),
            Value::Long(value) => value.fmt(f),
            // Java writes exponents below a thousandth and from ten million on.
            Value::Double(value)
                if value.is_finite() && *value != 0.0 && !(1e-3..1e7).contains(&value.abs()) =>
            {
                let text = format!("{value:E}");
                match text.split_once('E') {
                    Some((digits, exponent)) if !digits.contains('.') => write!(f, "{digits}.0E{exponent}"),
                    _ => f.write_str(&text),
                }
            }
            Value::Double(value) => write!(f, "{value:?}"),
            Value::List(values) => f.write_str(&values.join(",")),
            Value::Password(value) => value.fmt(f),
        }
    }
}

/// A secret: shown as `[hidden]` wherever it is printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    pub fn new(secret: impl Into<String>) -> Password {
        Password(secret.into())
    }

    /// The secret itself; not for logs.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// The name of a Java class; only names that we know stand for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassName(pub String);

/// A Rust type that stands for a [`Kind`]; an `Option` stands for a key whose default is null.
pub trait Typed: Sized {
    const KIND: Kind;
    const NULLABLE: bool = false;

    /// `None` only for a null value of a nullable type.
    fn from_value(value: Option<Value>) -> Option<Self>;
}

macro_rules! typed {
    ($($kind:ident: $rust:ty, $wrap:expr;)+) => {$(
        impl Typed for $rust {
            const KIND: Kind = Kind::$kind;

            fn from_value(value: Option<Value>) -> Option<Self> {
                match value {
                    Some(Value::$kind(value)) => Some($wrap(value)),
                    _ => None,
                }
            }
        }
    )+};
}

typed! {
    Boolean: bool, std::convert::identity;
    String: String, std::convert::identity;
    Int: i32, std::convert::identity;
    Short: i16, std::convert::identity;
    Long: i64, std::convert::identity;
    Double: f64, std::convert::identity;
    List: Vec<String>, std::convert::identity;
    Class: ClassName, ClassName;
    Password: Password, std::convert::identity;
}

impl<T: Typed> Typed for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;

    fn from_value(value: Option<Value>) -> Option<Self> {
        match value {
            None => Some(None),
            Some(value) => T::from_value(Some(value)).map(Some),
        }
    }
}

/// Why a text is no value for a key. Worded as Kafka words it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidValue {
    #[error("Expected value to be either true or false")]
    NotBoolean,
    #[error("Not a number of type {0}")]
    NotNumber(Kind),
    #[error("Value must be at least {0}")]
    TooSmall(String),
    #[error("Value must be no more than {0}")]
    TooLarge(String),
    #[error("Value must be between {0} and {1} or equal to {2}")]
    OutOfRange(i64, i64, i64),
    #[error("String must be one of: {}", .0.join(", "))]
    NotOneOf(&'static [&'static str]),
    #[error("String must be one of (case insensitive): {}", .0.join(", "))]
    NotOneOfIgnoringCase(&'static [&'static str]),
    #[error("String must be non-empty")]
    Empty,
    #[error(
        "Version {} is not a valid version; this broker speaks {} to {}",
        .0.escape_debug(), ProtocolVersion::OLDEST, ProtocolVersion::LATEST
    )]
    NotProtocolVersion(String),
    #[error("expected \"*\" or pairs like 0:101,1:102 of partition and broker")]
    NotThrottledReplicas,
    #[error("a value is required")]
    Null,
}

/// Kafka trims every value but a file's reader does not; what Java's `trim` takes for a blank.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

impl Definition {
    /// Parses and checks a value as Kafka's ConfigDef does: trimmed first, quotes taken literally.
    pub fn parse(&self, text: &str) -> Result<Value, InvalidValue> {
        let text = trim(text);
        let number = || InvalidValue::NotNumber(self.kind);
        let value = match self.kind {
            Kind::Boolean if text.eq_ignore_ascii_case("true") => Value::Boolean(true),
            Kind::Boolean if text.eq_ignore_ascii_case("false") => Value::Boolean(false),
            Kind::Boolean => return Err(InvalidValue::NotBoolean),
            Kind::String => Value::String(text.to_owned()),
            Kind::Int => Value::Int(text.parse().map_err(|_| number())?),
            Kind::Short => Value::Short(text.parse().map_err(|_| number())?),
            Kind::Long => Value::Long(text.parse().map_err(|_| number())?),
            Kind::Double => Value::Double(parse_double(text).ok_or_else(number)?),
            Kind::List if text.is_empty() => Value::List(vec![]),
            // Blanks around a comma go, an empty element stays.
            Kind::List => Value::List(text.split(',').map(|item| trim(item).to_owned()).collect()),
            Kind::Class => Value::Class(text.to_owned()),
            Kind::Password => Value::Password(Password::new(text)),
        };
        self.check(&value)?;
        Ok(value)
    }

    /// The default, or `None` where it is null.
    pub fn default_value(&self) -> Option<Value> {
        self.default.map(|text| match self.parse(text) {
            Ok(value) => value,
            Err(error) => panic!("the default of {} does not meet its own rules: {error}", self.name),
        })
    }

    fn check(&self, value: &Value) -> Result<(), InvalidValue> {
        match (self.valid, value) {
            (Valid::Any, _) => Ok(()),
            (Valid::AtLeast(least), value) => in_range(value, least, i64::MAX),
            (Valid::Between(least, most), value) => in_range(value, least, most),
            (Valid::BetweenOr(least, most, other), value) => match in_range(value, least, most) {
                Err(_) if integer(value) != Some(other) => Err(InvalidValue::OutOfRange(least, most, other)),
                _ => Ok(()),
            },
            (Valid::Fraction(_, most), Value::Double(value)) if *value > most => {
                Err(InvalidValue::TooLarge(most.to_string()))
            }
            // What is no number at all is in no range.
            (Valid::Fraction(least, most), Value::Double(value)) if !(least..=most).contains(value) => {
                Err(InvalidValue::TooSmall(least.to_string()))
            }
            (Valid::OneOf(allowed), Value::String(value)) if !allowed.contains(&value.as_str()) => {
                Err(InvalidValue::NotOneOf(allowed))
            }
            (Valid::OneOfIgnoringCase(allowed), Value::String(value))
                if !allowed.iter().any(|word| word.eq_ignore_ascii_case(value)) =>
            {
                Err(InvalidValue::NotOneOfIgnoringCase(allowed))
            }
            (Valid::EachOf(allowed), Value::List(values))
                if !values.iter().all(|value| allowed.contains(&value.as_str())) =>
            {
                Err(InvalidValue::NotOneOf(allowed))
            }
            (Valid::NonEmpty, Value::String(value)) if value.is_empty() => Err(InvalidValue::Empty),
            (Valid::ProtocolVersion, Value::String(value)) if value.parse::<ProtocolVersion>().is_err() => {
                Err(InvalidValue::NotProtocolVersion(value.clone()))
            }
            (Valid::ThrottledReplicas, Value::List(values)) if !are_throttled_replicas(values) => {
                Err(InvalidValue::NotThrottledReplicas)
            }
            (
                Valid::Fraction(..)
                | Valid::OneOf(_)
                | Valid::OneOfIgnoringCase(_)
                | Valid::EachOf(_)
                | Valid::NonEmpty
                | Valid::ProtocolVersion
                | Valid::ThrottledReplicas,
                _,
            ) => Ok(()),
        }
    }
}

fn integer(value: &Value) -> Option<i64> {
    match *value {
        Value::Int(value) => Some(value.into()),
        Value::Short(value) => Some(value.into()),
        Value::Long(value) => Some(value),
        _ => None,
    }
}

fn in_range(value: &Value, least: i64, most: i64) -> Result<(), InvalidValue> {
    match integer(value) {
        Some(value) if value < least => Err(InvalidValue::TooSmall(least.to_string())),
        Some(value) if value > most => Err(InvalidValue::TooLarge(most.to_string())),
        _ => Ok(()),
    }
}

/// `Double.parseDouble`, but for hexadecimal: a `d` or `f` may end the number, infinity is a word.
fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.trim_start_matches(['+', '-']);
    match unsigned.as_bytes().first()? {
        b'0'..=b'9' | b'.' => text.trim_end_matches(['d', 'D', 'f', 'F']).parse().ok(),
        _ if unsigned == "NaN" || unsigned == "Infinity" => text.parse().ok(),
        _ => None,
    }
}

fn are_throttled_replicas(values: &[String]) -> bool {
    let is_pair = |value: &String| {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        value.split_once(':').is_some_and(|(partition, broker)| number(partition) && number(broker))
    };
    values == ["*"] || values.iter().all(is_pair)
}

impl fmt::Display for Valid {
    /// As Kafka's documentation shows the allowed values; empty where all are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Valid::Any => Ok(()),
            Valid::AtLeast(least) => write!(f, "[{least},...]"),
            Valid::Between(least, most) => write!(f, "[{least},...,{most}]"),
            Valid::BetweenOr(least, i64::MAX, other) => write!(f, "[{least},...] or {other}"),
            Valid::BetweenOr(least, most, other) => write!(f, "[{least},...,{most}] or {other}"),
            Valid::Fraction(least, most) => write!(f, "[{least},...,{most}]"),
            Valid::OneOf(allowed) | Valid::EachOf(allowed) => write!(f, "[{}]", allowed.join(", ")),
            Valid::OneOfIgnoringCase(allowed) => write!(f, "(case insensitive) [{}]", allowed.join(", ")),
            Valid::NonEmpty => f.write_str("non-empty string"),
            Valid::ProtocolVersion => {
                write!(f, "[{},...,{}]", ProtocolVersion::OLDEST, ProtocolVersion::LATEST)
            }
            Valid::ThrottledReplicas => f.write_str("[partitionId]:[brokerId],[partitionId]:[brokerId],..."),
        }
    }
}

/// Declares keys by section: a typed constant for each, and one table of them all, in this order.
///
/// `CONSTANT: RustType = "name", default, Valid, Importance, Update[, Reach][, [synonym [* factor], ..]];`
macro_rules! keys {
    (
        $(#[$table_doc:meta])*
        pub static $table:ident;
        $(
            $section:literal {
                $(
                    $(#[doc = $doc:literal])+
                    $key:ident: $rust:ty =
                        $name:literal, $default:tt, $valid:expr, $importance:ident, $update:ident
                    $(, $reach:ident)?
                    $(, [$($synonym:literal $(* $factor:ident)?),+])?;
                )+
            }
        )+
    ) => {
        $($(
            $(#[doc = $doc])+
            pub const $key: Key<$rust> = Key::new(&Definition {
                name: $name,
                kind: <$rust as Typed>::KIND,
                default: default!($default),
                valid: { #[allow(unused_imports)] use Valid::*; $valid },
                importance: Importance::$importance,
                update: Update::$update,
                doc: concat!($($doc, "\n"),+),
                reach: reach!($($reach)?),
                synonyms: &[$($(($synonym, 1 $(* $factor)?)),+)?],
                section: $section,
            });
        )+)+

        $(#[$table_doc])*
        pub static $table: &[&Definition] = &[$($($key.definition),+),+];
    };
}

macro_rules! default {
    (null) => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}

macro_rules! reach {
    () => {
        Reach::Used
    };
    ($reach:ident) => {
        Reach::$reach
    };
}

pub(super) use {default, keys, reach};
