//! `.index`, `.timeindex` and `.txnindex` files, and whether they agree with their log.

use std::io::Write;
use std::path::Path;

use ottla_model::Offset;

use super::super::tools::Failure;
use super::segment_file::SegmentFile;
use super::{Options, base_offset, read};

/// Bytes of an offset index entry: i32 offset less base, i32 position.
const OFFSET_ENTRY: usize = 8;
/// Bytes of a time index entry: i64 timestamp, i32 offset less base.
const TIME_ENTRY: usize = 12;
/// Bytes of a transaction index entry: i16 version, i64 producer id, i64 first, last and last stable offset.
const TRANSACTION_ENTRY: usize = 34;

pub fn dump_offsets(path: &Path, options: &Options, out: &mut impl Write) -> Result<(), Failure> {
    let base = base_offset(path)?;
    let entries = offset_entries(path, base)?;
    if entries.is_empty() {
        return Ok(writeln!(out, "{} is empty.", path.display())?);
    }
    if options.index_sanity_check {
        return sane(path, entries.last().is_some_and(|(offset, _)| *offset > base), out);
    }
    let segment = SegmentFile::open(&path.with_extension("log"))?;
    let mut mismatches = Vec::new();
    for (offset, position) in entries {
        // Where nothing readable is, the index points astray.
        let found = segment.header_at(position).ok().flatten().map(|header| header.last_offset().0);
        if found != Some(offset) {
            mismatches.push((offset, found));
        }
        if !options.verify_index_only {
            writeln!(out, "offset: {offset} position: {position}")?;
        }
    }
    out.flush()?;
    if !mismatches.is_empty() {
        eprintln!("Mismatches in :{}", path.display());
        for (offset, found) in mismatches {
            eprintln!("  Index offset: {offset}, log offset: {}", found.unwrap_or(-1));
        }
    }
    Ok(())
}

pub fn dump_times(path: &Path, options: &Options, out: &mut impl Write) -> Result<(), Failure> {
    let base = base_offset(path)?;
    let bytes = read(path)?;
    let (entries, _) = bytes.as_chunks::<TIME_ENTRY>();
    let entries = entries.iter().map(|entry| {
        let [a, b, c, d, e, f, g, h, offset @ ..] = *entry;
        (i64::from_be_bytes([a, b, c, d, e, f, g, h]), base + i64::from(i32::from_be_bytes(offset)))
    });
    let entries: Vec<(i64, i64)> = until_unused(entries, |(_, offset)| *offset == base);
    if options.index_sanity_check {
        let rising = entries.windows(2).all(|pair| pair[0].0 <= pair[1].0);
        return sane(path, rising && entries.iter().all(|(_, offset)| *offset >= base), out);
    }
    let segment = SegmentFile::open(&path.with_extension("log"))?;
    let offsets = offset_entries(&path.with_extension("index"), base)?;
    let (mut mismatched, mut unordered, mut unfound) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = -1;
    for (timestamp, offset) in entries {
        let floor = offsets.iter().take_while(|(indexed, _)| *indexed <= offset).last();
        let position = floor.map_or(0, |(_, position)| *position);
        match segment.find(position, Offset(offset))? {
            Some((last, max)) if last.0 == offset => {
                if max != timestamp {
                    mismatched.push((timestamp, max));
                }
                if before >= timestamp {
                    unordered.push((timestamp, before));
                }
            }
            found => unfound.push((offset, found.map_or(-1, |(last, _)| last.0))),
        }
        if !options.verify_index_only {
            writeln!(out, "timestamp: {timestamp} offset: {offset}")?;
        }
        before = timestamp;
    }
    out.flush()?;
    let complain = |title: String, pairs: &[(i64, i64)], words: [&str; 2]| {
        if !pairs.is_empty() {
            eprintln!("{title}");
            for (one, other) in pairs {
                eprintln!("{}{one}{}{other}", words[0], words[1]);
            }
        }
    };
    let file = path.display();
    complain(
        format!("Found timestamp mismatch in :{file}"),
        &mismatched,
        ["  Index timestamp: ", ", log timestamp: "],
    );
    complain(
        format!("Found out of order timestamp in :{file}"),
        &unordered,
        ["  Index timestamp: ", ", Previously indexed timestamp: "],
    );
    complain(
        "The following indexed offsets are not found in the log.".to_owned(),
        &unfound,
        ["Indexed offset: ", ", found log offset: "],
    );
    Ok(())
}

pub fn dump_transactions(path: &Path, out: &mut impl Write) -> Result<(), Failure> {
    let bytes = read(path)?;
    let (entries, rest) = bytes.as_chunks::<TRANSACTION_ENTRY>();
    for entry in entries {
        let (version, fields) = entry.split_at(2);
        let version = i16::from_be_bytes([version[0], version[1]]);
        let (fields, _) = fields.as_chunks::<8>();
        let [id, first, last, stable] =
            [0, 1, 2, 3].map(|at: usize| fields.get(at).map_or(-1, |field| i64::from_be_bytes(*field)));
        writeln!(
            out,
            "version: {version} producerId: {id} firstOffset: {first} lastOffset: {last} lastStableOffset: {stable}"
        )?;
    }
    if !rest.is_empty() {
        out.flush()?;
        eprintln!("{}: {} bytes at the end are no entry", path.display(), rest.len());
    }
    Ok(())
}

fn offset_entries(path: &Path, base: i64) -> Result<Vec<(i64, u64)>, Failure> {
    let bytes = read(path)?;
    let (entries, _) = bytes.as_chunks::<OFFSET_ENTRY>();
    let entries = entries.iter().map(|entry| {
        let [a, b, c, d, e, f, g, h] = *entry;
        let relative = i32::from_be_bytes([a, b, c, d]);
        (base + i64::from(relative), u64::from(u32::from_be_bytes([e, f, g, h])))
    });
    Ok(until_unused(entries, |(offset, _)| *offset == base))
}

/// A broker makes the index of its active segment large in advance: the rest of it is zeros.
fn until_unused<T>(entries: impl Iterator<Item = T>, is_zero: impl Fn(&T) -> bool) -> Vec<T> {
    let mut entries: Vec<T> = entries
        .enumerate()
        .take_while(|(number, entry)| *number == 0 || !is_zero(entry))
        .map(|(_, entry)| entry)
        .collect();
    // No index entry is for the base offset itself.
    if entries.len() == 1 && is_zero(&entries[0]) {
        entries.clear();
    }
    entries
}

fn sane(path: &Path, sane: bool, out: &mut impl Write) -> Result<(), Failure> {
    if sane {
        Ok(writeln!(out, "{} passed sanity check.", path.display())?)
    } else {
        Err(format!(
            "Corrupt index found, index file ({}): its entries do not rise from the base offset",
            path.display()
        )
        .into())
    }
}
