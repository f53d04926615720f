//! Tagged fields that no schema of ours names (KIP-482): kept as they came, and sent on.

use bytes::Bytes;

use crate::Encoder;

/// Tagged fields of one struct that its schema does not know, by ascending tag.
///
/// Boxed, because nearly every struct of nearly every message has none and then pays one word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::box_collection, reason = "a Vec is three words in every struct of every message")]
pub struct UnknownTaggedFields(Option<Box<Vec<(u32, Bytes)>>>);

impl UnknownTaggedFields {
    pub(crate) const ENTRY_BYTES: usize = size_of::<(u32, Bytes)>();

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn len(&self) -> usize {
        self.0.as_deref().map_or(0, Vec::len)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Bytes)> {
        self.0.as_deref().into_iter().flatten().map(|(tag, value)| (*tag, value))
    }

    pub(crate) fn push(&mut self, tag: u32, value: Bytes) {
        self.0.get_or_insert_default().push((tag, value));
    }

    /// Puts the tags in ascending order; `Err` is a tag that is there twice.
    pub(crate) fn sort(&mut self) -> Result<(), u32> {
        let Some(fields) = self.0.as_deref_mut() else { return Ok(()) };
        fields.sort_by_key(|(tag, _)| *tag);
        match fields.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(pair[0].0),
            None => Ok(()),
        }
    }
}

/// Writes unknown tagged fields between the known ones, so that all tags ascend.
#[derive(Debug)]
pub struct UnknownTaggedFieldsWriter<'a> {
    fields: &'a [(u32, Bytes)],
}

impl<'a> UnknownTaggedFieldsWriter<'a> {
    pub(crate) fn new(fields: &'a UnknownTaggedFields) -> UnknownTaggedFieldsWriter<'a> {
        UnknownTaggedFieldsWriter { fields: fields.0.as_deref().map_or(&[], Vec::as_slice) }
    }

    /// Writes those whose tags come before `tag`.
    pub fn write_below(&mut self, out: &mut Encoder<'_>, tag: u32) {
        let split = self.fields.partition_point(|(unknown, _)| *unknown < tag);
        let (now, later) = self.fields.split_at(split);
        self.fields = later;
        out.raw_tagged_fields(now);
    }

    /// Writes all that are left.
    pub fn write_rest(self, out: &mut Encoder<'_>) {
        out.raw_tagged_fields(self.fields);
    }
}
