//! Proofs of the wire: foreign codecs, hostile bytes, golden frames and fuzz corpora.

mod all_messages;
mod any_message;
mod counting_allocator;
mod foreign_codecs;
mod fuzz_corpora;
mod golden_frames;
mod hostile_bytes;

#[global_allocator]
static ALLOCATOR: counting_allocator::CountingAllocator = counting_allocator::CountingAllocator;
