//! Random messages as bytes, straight from the schema: a second writer that shares no code with the generated one.

use std::collections::BTreeMap;

use xtask::codegen::schema::{Field, Schema, Struct, Type};

/// A small generator of random numbers (SplitMix64): the same seed, the same messages.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A stream of its own for each name, version and round.
    pub fn of(name: &str, version: i16, round: u64) -> Random {
        let mut seed = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version as u64;
        for byte in name.bytes() {
            seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }
}

/// The schemas by the name of each message in them.
pub fn schemas_by_message() -> BTreeMap<String, (Schema, usize)> {
    let schemas = xtask::codegen::schemas().unwrap();
    let by_message = schemas.into_values().flat_map(|schema| {
        let names: Vec<String> = schema.messages.iter().map(|message| message.body.name.clone()).collect();
        names.into_iter().enumerate().map(move |(index, name)| (name, (schema.clone(), index)))
    });
    by_message.collect()
}

/// Which unknown tags a random message may carry.
#[derive(Debug, Clone, Copy)]
pub enum UnknownTags {
    None,
    /// Above all known ones, where every codec keeps the order.
    Above,
    /// Between the known ones too.
    Between,
}

/// Writes one random message in canonical form: tags ascend, and tagged fields with their default are left out.
pub fn any_message(
    schema: &Schema,
    message: usize,
    version: i16,
    random: &mut Random,
    unknown_tags: UnknownTags,
) -> Vec<u8> {
    let mut writer = Writer { schema, version, random, unknown_tags, out: Vec::new() };
    writer.structure(&schema.messages[message].body);
    writer.out
}

struct Writer<'a> {
    schema: &'a Schema,
    version: i16,
    random: &'a mut Random,
    unknown_tags: UnknownTags,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn structure(&mut self, structure: &Struct) {
        let version = self.version;
        let flexible = structure.is_flexible(version);
        let mut tagged: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for field in structure.fields.iter().filter(|field| field.versions.contains(version)) {
            match field.tag_in(version) {
                None => self.field(field, flexible && !field.never_flexible),
                Some(tag) => {
                    let value = self.aside(|writer| writer.field(field, true));
                    let default = self.aside(|writer| writer.default(field));
                    if value != default && !self.random.one_in(3) {
                        tagged.insert(tag, value);
                    }
                }
            }
        }
        if flexible {
            self.unknown_tagged(structure, &mut tagged);
            self.unsigned_varint(tagged.len());
            for (tag, value) in tagged {
                self.unsigned_varint(tag as usize);
                self.unsigned_varint(value.len());
                self.out.extend(value);
            }
        }
    }

    fn unknown_tagged(&mut self, structure: &Struct, tagged: &mut BTreeMap<u32, Vec<u8>>) {
        if !self.random.one_in(4) {
            return;
        }
        let known: Vec<u32> =
            structure.fields.iter().filter_map(|field| field.tag_in(self.version)).collect();
        for _ in 0..1 + self.random.below(3) {
            let tag = match self.unknown_tags {
                UnknownTags::None => return,
                UnknownTags::Above => 1000 + self.random.below(100_000),
                UnknownTags::Between => self.random.below(12),
            } as u32;
            if !known.contains(&tag) {
                let length = self.random.below(6);
                let value = self.random_bytes(length);
                tagged.insert(tag, value);
            }
        }
    }

    /// What `write` writes, kept apart from the message.
    fn aside(&mut self, write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let before = std::mem::take(&mut self.out);
        write(self);
        std::mem::replace(&mut self.out, before)
    }

    fn field(&mut self, field: &Field, flexible: bool) {
        let may_be_null = field.nullable.is_some_and(|nullable| nullable.contains(self.version));
        if may_be_null && self.random.one_in(4) {
            return self.null(&field.ty, flexible);
        }
        if may_be_null && matches!(field.ty, Type::Struct(_)) {
            self.out.push(1);
        }
        self.value(&field.ty, flexible);
    }

    fn null(&mut self, ty: &Type, flexible: bool) {
        match ty {
            Type::Struct(_) => self.out.push(0xff),
            _ if flexible => self.out.push(0),
            Type::String => self.out.extend([0xff; 2]),
            _ => self.out.extend([0xff; 4]),
        }
    }

    fn value(&mut self, ty: &Type, flexible: bool) {
        match ty {
            Type::Bool => {
                let value = self.random.below(2) as u8;
                self.out.push(value);
            }
            Type::Int8 => self.integer(1),
            Type::Int16 | Type::Uint16 => self.integer(2),
            Type::Int32 | Type::Uint32 => self.integer(4),
            Type::Int64 => self.integer(8),
            Type::Float64 => {
                let value = self.random.next() as i64 as f64 / 1024.0;
                self.out.extend(value.to_be_bytes());
            }
            Type::Uuid => {
                let value = self.random_bytes(16);
                self.out.extend(value);
            }
            Type::String => {
                let text = self.random_text();
                self.string_length(text.len(), flexible);
                self.out.extend(text.as_bytes());
            }
            Type::Bytes | Type::Records => {
                let length = self.random_length();
                let value = self.random_bytes(length);
                self.length(length, flexible);
                self.out.extend(value);
            }
            Type::Array(element) => {
                let count = self.random.below(4);
                self.length(count, flexible);
                for _ in 0..count {
                    self.value(element, flexible);
                }
            }
            Type::Struct(name) => {
                let schema = self.schema;
                self.structure(schema.structure(name));
            }
        }
    }

    /// The field's default, as a tagged field would carry it.
    fn default(&mut self, field: &Field) {
        let default = field.default.as_deref().unwrap_or_default();
        let nullable = field.nullable.is_some();
        match &field.ty {
            ty if default == "null" || *ty == Type::Records => self.null(ty, true),
            Type::Bool => self.out.push((default == "true").into()),
            Type::Int8 => self.out.extend(default.parse().unwrap_or(0i8).to_be_bytes()),
            Type::Int16 => self.out.extend(default.parse().unwrap_or(0i16).to_be_bytes()),
            Type::Int32 => self.out.extend(default.parse().unwrap_or(0i32).to_be_bytes()),
            Type::Int64 => self.out.extend(default.parse().unwrap_or(0i64).to_be_bytes()),
            Type::Uint16 => self.out.extend(default.parse().unwrap_or(0u16).to_be_bytes()),
            Type::Uint32 => self.out.extend(default.parse().unwrap_or(0u32).to_be_bytes()),
            Type::Float64 => self.out.extend(default.parse().unwrap_or(0f64).to_be_bytes()),
            Type::Uuid => self.out.extend([0; 16]),
            Type::String => {
                self.string_length(default.len(), true);
                self.out.extend(default.as_bytes());
            }
            Type::Bytes | Type::Records | Type::Array(_) => self.length(0, true),
            Type::Struct(name) => {
                if nullable {
                    self.out.push(1);
                }
                let schema = self.schema;
                let version = self.version;
                let structure = schema.structure(name);
                for field in structure.fields.iter().filter(|field| field.versions.contains(version)) {
                    if field.tag_in(version).is_none() {
                        self.default(field);
                    }
                }
                self.out.push(0);
            }
        }
    }

    /// Small numbers, extremes and anything in between.
    fn integer(&mut self, size: usize) {
        let value = match self.random.below(6) {
            0 => 0,
            1 => -1,
            2 => self.random.below(100) as i64,
            3 => i64::MAX,
            4 => i64::MIN,
            _ => self.random.next() as i64,
        };
        // The extremes keep their sign bit and low bits when cut to size.
        let bytes =
            if value == i64::MIN { [&[0x80][..], &[0; 7]].concat() } else { value.to_be_bytes().to_vec() };
        let cut = if value == i64::MIN { &bytes[..size] } else { &bytes[8 - size..] };
        self.out.extend(cut);
    }

    /// Mostly short; now and then so long that a compact length takes two bytes.
    fn random_length(&mut self) -> usize {
        if self.random.one_in(20) { 120 + self.random.below(200) } else { self.random.below(8) }
    }

    fn random_bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.random.next() as u8).collect()
    }

    fn random_text(&mut self) -> String {
        let length = self.random_length();
        (0..length).map(|_| ['a', 'Z', '0', '.', '-', '_', 'ø', '€', '😀'][self.random.below(9)]).collect()
    }

    fn string_length(&mut self, length: usize, flexible: bool) {
        if flexible {
            self.unsigned_varint(length + 1);
        } else {
            self.out.extend((length as i16).to_be_bytes());
        }
    }

    fn length(&mut self, length: usize, flexible: bool) {
        if flexible {
            self.unsigned_varint(length + 1);
        } else {
            self.out.extend((length as i32).to_be_bytes());
        }
    }

    fn unsigned_varint(&mut self, mut value: usize) {
        while value > 0x7f {
            self.out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}
