//! How a field is named, typed and defaulted in Rust.

use super::schema::{Field, Type};

pub fn rust_name(field: &Field) -> String {
    const KEYWORDS: [&str; 12] =
        ["as", "fn", "impl", "in", "match", "mod", "move", "ref", "self", "type", "use", "where"];
    let name = &field.name;
    if KEYWORDS.contains(&name.as_str()) { format!("r#{name}") } else { name.clone() }
}

pub fn rust_type(field: &Field) -> String {
    let ty = plain_type(&field.ty);
    if field.nullable.is_some() { format!("Option<{ty}>") } else { ty }
}

fn plain_type(ty: &Type) -> String {
    let name = match ty {
        Type::Bool => "bool",
        Type::Int8 => "i8",
        Type::Int16 => "i16",
        Type::Int32 => "i32",
        Type::Int64 => "i64",
        Type::Uint16 => "u16",
        Type::Uint32 => "u32",
        Type::Float64 => "f64",
        Type::String => "Str",
        Type::Bytes | Type::Records => "Bytes",
        Type::Uuid => "Uuid",
        Type::Struct(name) => name,
        Type::Array(element) => return format!("Vec<{}>", plain_type(element)),
    };
    name.to_owned()
}

/// Whether null is what the field has where nothing is said: if the schema says so, and always for records.
fn is_null_by_default(field: &Field) -> bool {
    field.nullable.is_some() && (field.default.as_deref() == Some("null") || field.ty == Type::Records)
}

/// Whether `derive(Default)` gives the field the schema's default.
pub fn has_derived_default(field: &Field) -> bool {
    match field.nullable {
        Some(_) => is_null_by_default(field),
        None => matches!(field.default.as_deref(), None | Some("" | "0" | "false")),
    }
}

/// The schema's default as an expression.
pub fn default_value(field: &Field) -> String {
    if is_null_by_default(field) {
        return "None".to_owned();
    }
    let default = field.default.as_deref().unwrap_or_default();
    let value = match (&field.ty, default) {
        (Type::Bool, "") => "false".to_owned(),
        (Type::Float64, "") => "0.0".to_owned(),
        (Type::Float64, number) if !number.contains('.') => format!("{number}.0"),
        (Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 | Type::Uint16 | Type::Uint32, number) => {
            integer(&plain_type(&field.ty), number)
        }
        (Type::Bool | Type::Float64, value) => value.to_owned(),
        (Type::String, "") => "Str::default()".to_owned(),
        (Type::String, text) => format!("Str::from_static({text:?})"),
        (Type::Bytes | Type::Records, _) => "Bytes::new()".to_owned(),
        (Type::Uuid, _) => "Uuid::ZERO".to_owned(),
        (Type::Array(_), _) => "Vec::new()".to_owned(),
        (Type::Struct(name), _) => format!("{name}::default()"),
    };
    if field.nullable.is_some() { format!("Some({value})") } else { value }
}

/// Extremes by their names, other numbers as they are.
fn integer(ty: &str, number: &str) -> String {
    let extreme = match number {
        "" => return "0".to_owned(),
        "2147483647" | "9223372036854775807" => "MAX",
        "-2147483648" | "-9223372036854775808" => "MIN",
        _ => return number.to_owned(),
    };
    match (ty, number.len() > 11) {
        ("i32", false) | ("i64", true) => format!("{ty}::{extreme}"),
        _ => number.to_owned(),
    }
}

/// The condition under which a field does not have its default.
pub fn differs_from_default(field: &Field) -> String {
    let value = format!("self.{}", rust_name(field));
    let default = default_value(field);
    let empty_by_default = match &field.ty {
        Type::Bytes | Type::Records | Type::Array(_) => true,
        Type::String => matches!(field.default.as_deref(), None | Some("")),
        _ => false,
    };
    match (&field.ty, default.as_str()) {
        (_, "None") => format!("{value}.is_some()"),
        _ if empty_by_default && field.nullable.is_some() => {
            format!("{value}.as_ref().is_none_or(|value| !value.is_empty())")
        }
        _ if empty_by_default => format!("!{value}.is_empty()"),
        (Type::Bool, "true") => format!("!{value}"),
        (Type::Bool, _) => value,
        (Type::Uuid, _) => format!("!{value}.is_zero()"),
        _ => format!("{value} != {default}"),
    }
}
