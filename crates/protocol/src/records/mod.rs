//! Record batches: the bytes that producers send, the log keeps and consumers read.
//!
//! Three formats, told apart by one byte (`magic`) at the same place in each. Buffers and segments are plain
//! concatenations of *entries*:
//!
//! ```text
//! magic 0, 1   an entry is one message, or one compressed wrapper around a set of messages
//! magic 2      an entry is one batch: a 61-byte header, then records (KIP-98)
//! ```
//!
//! Nothing here copies record bytes to look at them: [`Batches`] walks a buffer entry by entry, [`Records`] walks
//! the records of one entry, and both lend slices of what they were given. Every length that the bytes claim is
//! held against the bytes that are there before it is believed.

pub mod batch;
pub mod validate;

mod builder;
mod control;
mod down_convert;
mod legacy;
mod record;
mod varint;
mod window;

pub use batch::{
    Attributes, Batch, BatchHeader, Batches, CorruptBatch, ENTRY_OVERHEAD, HEADER_LENGTH, Magic,
    TimestampType,
};
pub use builder::{BatchBuilder, MessageSetBuilder, ProducerState};
pub use control::{ControlType, EndTransactionMarker, TransactionResult};
pub use down_convert::{DownConversionError, DownConverted, down_convert, fetch_format};
pub use record::{BatchRecords, Headers, HeadersIter, Record, RecordError, RecordHeader, Records};
