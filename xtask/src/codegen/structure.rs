//! The code of one struct: its declaration, its defaults, and how it is read and written in each version.

use std::cell::Cell;

use super::field::{default_value, differs_from_default, has_derived_default, rust_name, rust_type};
use super::schema::{Field, Schema, Struct, Type, Versions};

/// The body of a function, and whether it asks for the version.
pub struct Body {
    pub text: String,
    uses_version: bool,
}

/// Writes the code of one struct. Conditions that the struct's own versions settle are left out.
pub struct StructCode<'a> {
    schema: &'a Schema,
    structure: &'a Struct,
    /// Whether the struct ends in tagged fields: `None` in no version, else how its code asks for it.
    flexible: Option<&'static str>,
    /// Set by what is written, cleared at the start of each body.
    uses_version: Cell<bool>,
    uses_flexible: Cell<bool>,
}

impl<'a> StructCode<'a> {
    pub fn new(schema: &'a Schema, structure: &'a Struct) -> StructCode<'a> {
        let Versions { first, last } = structure.versions;
        let flexible = match (structure.is_flexible(first), structure.is_flexible(last)) {
            (_, false) => None,
            (true, true) => Some("true"),
            (false, true) => Some("flexible"),
        };
        let uses = || Cell::new(false);
        StructCode { schema, structure, flexible, uses_version: uses(), uses_flexible: uses() }
    }

    /// The struct itself and its `Default`.
    pub fn declaration(&self, doc: &[String]) -> String {
        let Struct { name, fields, .. } = self.structure;
        let derived = fields.iter().all(has_derived_default);
        let derives = if derived { "Debug, Clone, PartialEq, Default" } else { "Debug, Clone, PartialEq" };
        let mut code = format!("{}#[derive({derives})]\npub struct {name} {{\n", doc_comment(doc));
        for field in fields {
            code += &format!("{}pub {}: {},\n", doc_comment(&field.doc), rust_name(field), rust_type(field));
        }
        if self.flexible.is_some() {
            code += "/// Tagged fields that the schema does not name.\n";
            code += "pub unknown_tagged_fields: UnknownTaggedFields,\n";
        }
        code += "}\n\n";
        if !derived {
            code += &format!("impl Default for {name} {{\nfn default() -> {name} {{\n{name} {{\n");
            for field in fields {
                code += &format!("{}: {},\n", rust_name(field), default_value(field));
            }
            if self.flexible.is_some() {
                code += "unknown_tagged_fields: UnknownTaggedFields::default(),\n";
            }
            code += "}\n}\n}\n\n";
        }
        code
    }

    /// The functions of a struct within messages.
    pub fn inherent_impl(&self) -> String {
        let name = &self.structure.name;
        let (decode, encode) = (self.decode_body(), self.encode_body());
        let parameter = |body: &Body| if body.uses_version { "version" } else { "_version" };
        format!(
            "impl {name} {{
                fn decode(d: &mut Decoder, {}: i16) -> Result<{name}, DecodeError> {{
                    {}
                }}

                fn encode(&self, out: &mut Encoder<'_>, {}: i16) -> Result<(), EncodeError> {{
                    {}
                }}
            }}\n\n",
            parameter(&decode),
            decode.text,
            parameter(&encode),
            encode.text,
        )
    }

    pub fn decode_body(&self) -> Body {
        self.body(|| {
            let Struct { name, fields, .. } = self.structure;
            let mut code = format!("{name} {{\n");
            for field in fields {
                code += &format!("{}: {},\n", rust_name(field), self.decode_in_line(field));
            }
            let tagged = self.tagged_fields();
            if let Some(flexible) = self.flexible {
                let read = match (tagged.is_empty(), flexible) {
                    (true, "true") => "d.unknown_tagged_fields()?".to_owned(),
                    (true, _) => format!(
                        "if {} {{ d.unknown_tagged_fields()? }} else {{ UnknownTaggedFields::default() }}",
                        self.flexible_in(self.structure.versions)
                    ),
                    (false, _) => "UnknownTaggedFields::default()".to_owned(),
                };
                code += &format!("unknown_tagged_fields: {read},\n");
            }
            code += "}";
            if tagged.is_empty() {
                return format!("Ok({code})");
            }
            let read = self.decode_tagged(&tagged);
            format!("let mut message = {code};\n{read}\nOk(message)")
        })
    }

    /// The expression that gives a field its value before the tagged fields are read.
    fn decode_in_line(&self, field: &Field) -> String {
        let mut code = default_value(field);
        for versions in self.in_line(field).into_iter().rev() {
            let value = self.decode_value(field, versions, !field.never_flexible);
            code = match self.condition(versions, self.structure.versions) {
                None => value,
                Some(condition) => format!("if {condition} {{ {value} }} else {{ {code} }}"),
            };
        }
        code
    }

    fn decode_tagged(&self, tagged: &[(u32, Versions, &Field)]) -> String {
        let mut arms = String::new();
        for (tag, versions, field) in tagged {
            let guard = self
                .condition(*versions, self.flexible_versions())
                .map(|condition| format!(" if {condition}"));
            let value = self.decode_value(field, *versions, true);
            arms +=
                &format!("{tag}{} => message.{} = {value},\n", guard.unwrap_or_default(), rust_name(field));
        }
        self.where_flexible(format!(
            "message.unknown_tagged_fields = d.tagged_fields(|d, tag| {{
                match tag {{
                    {arms}_ => return Ok(false),
                }}
                Ok(true)
            }})?;"
        ))
    }

    /// The expression that reads a field in `versions`, in some of which it may be null.
    fn decode_value(&self, field: &Field, versions: Versions, compact: bool) -> String {
        let flexible = if compact { self.flexible_in(versions) } else { "false" };
        let plain = || self.decode_type(&field.ty, "", flexible, versions) + "?";
        let or_null = || self.decode_type(&field.ty, "nullable_", flexible, versions) + "?";
        let Some(nullable) = field.nullable else { return plain() };
        match nullable.intersection(versions) {
            None => format!("Some({})", plain()),
            Some(nullable) => match self.condition(nullable, versions) {
                None => or_null(),
                Some(condition) => format!("if {condition} {{ {} }} else {{ Some({}) }}", or_null(), plain()),
            },
        }
    }

    /// The expression, without `?`, that reads a value; `prefix` is `nullable_` where it may be null.
    fn decode_type(&self, ty: &Type, prefix: &str, flexible: &str, versions: Versions) -> String {
        if let Some((method, _)) = fixed_size(ty) {
            return format!("d.{method}()");
        }
        match ty {
            Type::Array(element) => {
                let bytes_min = self.bytes_min(element, versions);
                let read = match fixed_size(element) {
                    Some((method, _)) => format!("Decoder::{method}"),
                    None => format!("|d| {}", self.decode_type(element, "", flexible, versions)),
                };
                format!("d.{prefix}array({flexible}, {bytes_min}, {read})")
            }
            Type::Struct(name) => {
                self.uses_version.set(true);
                match prefix {
                    "" => format!("{name}::decode(d, version)"),
                    _ => format!("d.nullable_struct(|d| {name}::decode(d, version))"),
                }
            }
            Type::String => format!("d.{prefix}string({flexible})"),
            _ => format!("d.{prefix}bytes({flexible})"),
        }
    }

    pub fn encode_body(&self) -> Body {
        self.body(|| {
            let mut code: String =
                self.structure.fields.iter().map(|field| self.encode_in_line(field)).collect();
            if self.flexible.is_some() {
                code += &self.encode_tagged(&self.tagged_fields());
            }
            code + "Ok(())"
        })
    }

    /// Writes the field where versions have it in line, and refuses it where versions lack it altogether.
    fn encode_in_line(&self, field: &Field) -> String {
        let in_line = self.in_line(field);
        let mut code = String::new();
        for versions in &in_line {
            let value = self.encode_value(field, *versions, !field.never_flexible);
            code += &match self.condition(*versions, self.structure.versions) {
                None => value + "\n",
                Some(condition) => format!("if {condition} {{ {value} }}\n"),
            };
        }
        if field.ignorable || field.versions.covers(self.structure.versions) {
            return code;
        }
        let differs = differs_from_default(field);
        let refusal = self.refusal(&field.name);
        // Where all that the field has is one condition, the refusal is its other half.
        if in_line.len() == 1 && field.tag.is_none() {
            return format!("{} else if {differs} {{ {refusal} }}\n", code.trim_end());
        }
        let absent = self.absence(field.versions, self.structure.versions);
        code + &format!("if {absent} && {differs} {{ {refusal} }}\n")
    }

    /// Writes the tagged fields that differ from their defaults, in order with the unknown ones.
    fn encode_tagged(&self, tagged: &[(u32, Versions, &Field)]) -> String {
        let write = if tagged.is_empty() {
            "out.unknown_tagged_fields(&self.unknown_tagged_fields);".to_owned()
        } else {
            self.encode_known_tagged(tagged)
        };
        if self.flexible == Some("true") {
            return write + "\n";
        }
        format!(
            "{} else if !self.unknown_tagged_fields.is_empty() {{ {} }}\n",
            self.where_flexible(write),
            self.refusal("unknown_tagged_fields")
        )
    }

    fn encode_known_tagged(&self, tagged: &[(u32, Versions, &Field)]) -> String {
        let mut code = String::new();
        for (_, versions, field) in tagged {
            let condition = self.condition(*versions, self.flexible_versions());
            let condition = condition.map(|condition| condition + " && ").unwrap_or_default();
            code += &format!("let has_{} = {condition}{};\n", field.name, differs_from_default(field));
        }
        let counts: Vec<String> =
            tagged.iter().map(|(_, _, field)| format!("usize::from(has_{})", field.name)).collect();
        code += &format!(
            "let mut unknown = out.begin_tagged_fields({}, &self.unknown_tagged_fields);\n",
            counts.join(" + ")
        );
        for (tag, versions, field) in tagged {
            let value = self.encode_value(field, *versions, true);
            code += &format!(
                "if has_{} {{
                    unknown.write_below(out, {tag});
                    let value = out.begin_tagged_field({tag});
                    {value}
                    out.end_tagged_field(value)?;
                }}\n",
                field.name
            );
        }
        code + "unknown.write_rest(out);"
    }

    /// The statement that writes a field in `versions`, in some of which it may be null.
    fn encode_value(&self, field: &Field, versions: Versions, compact: bool) -> String {
        let flexible = if compact { self.flexible_in(versions) } else { "false" };
        let value = format!("self.{}", rust_name(field));
        let Some(nullable) = field.nullable else {
            let value = if fixed_size(&field.ty).is_some() { value } else { format!("&{value}") };
            return self.encode_type(&field.ty, "", flexible, &value) + ";";
        };
        let option = match field.ty {
            Type::Struct(_) => format!("{value}.as_ref()"),
            _ => format!("{value}.as_deref()"),
        };
        let or_null = || self.encode_type(&field.ty, "nullable_", flexible, &option) + ";";
        let not_null = || {
            self.uses_version.set(true);
            format!(
                "let value = {option}.ok_or(EncodeError::NullNotInVersion {{
                    structure: \"{}\", field: \"{}\", version
                }})?;
                {};",
                self.structure.name,
                field.name,
                self.encode_type(&field.ty, "", flexible, "value")
            )
        };
        match nullable.intersection(versions) {
            None => not_null(),
            Some(nullable) => match self.condition(nullable, versions) {
                None => or_null(),
                Some(condition) => format!("if {condition} {{ {} }} else {{ {} }}", or_null(), not_null()),
            },
        }
    }

    /// The expression that writes a value; `prefix` is `nullable_` where it may be null.
    fn encode_type(&self, ty: &Type, prefix: &str, flexible: &str, value: &str) -> String {
        if let Some((method, _)) = fixed_size(ty) {
            return format!("out.{method}({value})");
        }
        match ty {
            Type::Array(element) => {
                let write = match fixed_size(element) {
                    Some((method, _)) => format!("{{ out.{method}(*value); Ok(()) }}"),
                    None => self.encode_type(element, "", flexible, "value").trim_end_matches('?').to_owned(),
                };
                format!("out.{prefix}array({value}, {flexible}, |out, value| {write})?")
            }
            Type::Struct(_) => {
                self.uses_version.set(true);
                match prefix {
                    "" => format!("{}.encode(out, version)?", value.trim_start_matches('&')),
                    _ => format!("out.nullable_struct({value}, |out, value| value.encode(out, version))?"),
                }
            }
            Type::String => format!("out.{prefix}string({value}, {flexible})?"),
            _ => format!("out.{prefix}bytes({value}, {flexible})?"),
        }
    }

    fn refusal(&self, field: &str) -> String {
        self.uses_version.set(true);
        format!(
            "return Err(EncodeError::FieldNotInVersion {{
                structure: \"{}\", field: \"{field}\", version
            }});",
            self.structure.name
        )
    }

    /// The versions in which the field is written in line, as up to two runs.
    fn in_line(&self, field: &Field) -> Vec<Versions> {
        let Some(versions) = field.versions.intersection(self.structure.versions) else { return Vec::new() };
        let Some((_, tagged)) = self.tagged(field) else { return vec![versions] };
        let before = Versions { first: versions.first, last: tagged.first - 1 };
        let after = Versions { first: tagged.last.saturating_add(1), last: versions.last };
        [before, after].into_iter().filter(|run| run.first <= run.last).collect()
    }

    /// The fields with a tag, and the versions in which they have it.
    fn tagged_fields(&self) -> Vec<(u32, Versions, &'a Field)> {
        let fields = self.structure.fields.iter();
        fields.filter_map(|field| self.tagged(field).map(|(tag, versions)| (tag, versions, field))).collect()
    }

    fn tagged(&self, field: &Field) -> Option<(u32, Versions)> {
        let (tag, versions) = field.tag?;
        Some((tag, versions.intersection(field.versions)?.intersection(self.structure.versions)?))
    }

    /// The versions in which the struct ends in tagged fields.
    fn flexible_versions(&self) -> Versions {
        let Versions { first, last } = self.structure.versions;
        Versions { first: self.structure.flexible.unwrap_or(first).max(first), last }
    }

    fn where_flexible(&self, statements: String) -> String {
        match self.flexible_in(self.structure.versions) {
            "true" => statements,
            flexible => format!("if {flexible} {{ {statements} }}"),
        }
    }

    /// How to ask for "flexible" where only `versions` can be.
    fn flexible_in(&self, versions: Versions) -> &'static str {
        match (self.structure.is_flexible(versions.first), self.structure.is_flexible(versions.last)) {
            (true, _) => "true",
            (false, false) => "false",
            (false, true) => {
                self.uses_flexible.set(true);
                "flexible"
            }
        }
    }

    /// What to ask to know that a version out of `within` is one of `versions`; `None` if all are.
    fn condition(&self, versions: Versions, within: Versions) -> Option<String> {
        let Versions { first, last } = versions;
        let condition = match (first > within.first, last < within.last) {
            (false, false) => return None,
            (true, false) => format!("version >= {first}"),
            _ if first == last => format!("version == {first}"),
            (false, true) => format!("version <= {last}"),
            (true, true) => format!("({first}..={last}).contains(&version)"),
        };
        self.uses_version.set(true);
        Some(condition)
    }

    /// What to ask to know that a version out of `within` is none of `versions`, which do not cover it.
    fn absence(&self, versions: Versions, within: Versions) -> String {
        self.uses_version.set(true);
        let Versions { first, last } = versions;
        match (first > within.first, last < within.last) {
            (true, false) => format!("version < {first}"),
            (false, true) => format!("version > {last}"),
            _ => format!("!({first}..={last}).contains(&version)"),
        }
    }

    /// The fewest bytes that a value of the type takes on the wire in any of the versions.
    fn bytes_min(&self, ty: &Type, versions: Versions) -> usize {
        if let Some((_, size)) = fixed_size(ty) {
            return size;
        }
        match ty {
            Type::Struct(name) => {
                let nested = StructCode::new(self.schema, self.schema.structure(name));
                (versions.first..=versions.last).map(|version| nested.bytes_in(version)).min().unwrap_or(0)
            }
            _ if self.structure.is_flexible(versions.last) => 1,
            Type::String => 2,
            _ => 4,
        }
    }

    /// The fewest bytes that the struct takes in this version.
    fn bytes_in(&self, version: i16) -> usize {
        let only = Versions { first: version, last: version };
        let fields = self.structure.fields.iter();
        let in_line = fields.filter(|f| f.versions.contains(version) && f.tag_in(version).is_none());
        let bytes = in_line.map(|field| match (&field.ty, field.nullable) {
            (Type::Struct(_), Some(nullable)) if nullable.contains(version) => 1,
            (ty, _) => self.bytes_min(ty, only),
        });
        bytes.sum::<usize>() + usize::from(self.structure.is_flexible(version))
    }

    /// Writes a body and puts the local `flexible` in front of it if it asks for that.
    fn body(&self, write: impl FnOnce() -> String) -> Body {
        self.uses_version.set(false);
        self.uses_flexible.set(false);
        let text = write();
        match self.structure.flexible {
            Some(first) if self.uses_flexible.get() => {
                Body { text: format!("let flexible = version >= {first};\n{text}"), uses_version: true }
            }
            _ => Body { text, uses_version: self.uses_version.get() },
        }
    }
}

fn doc_comment(doc: &[String]) -> String {
    doc.iter().map(|line| format!("/// {line}\n")).collect()
}

/// The method that reads or writes a value whose size is always the same, and that size.
fn fixed_size(ty: &Type) -> Option<(&'static str, usize)> {
    Some(match ty {
        Type::Bool => ("bool", 1),
        Type::Int8 => ("int8", 1),
        Type::Int16 => ("int16", 2),
        Type::Int32 => ("int32", 4),
        Type::Int64 => ("int64", 8),
        Type::Uint16 => ("uint16", 2),
        Type::Uint32 => ("uint32", 4),
        Type::Float64 => ("float64", 8),
        Type::Uuid => ("uuid", 16),
        Type::String | Type::Bytes | Type::Records | Type::Array(_) | Type::Struct(_) => return None,
    })
}
