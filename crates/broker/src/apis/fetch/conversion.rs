//! Records for fetchers that are older than the log.

use bytes::Bytes;
use ottla_files::{Disk, File};
use ottla_log::Region;
use ottla_model::Offset;
use ottla_network::FileRegion;
use ottla_protocol::ErrorCode;
use ottla_protocol::records::validate::DECOMPRESSED_BYTES_MAX;
use ottla_protocol::records::{Batches, Magic, down_convert, fetch_format};

use super::response::FetchedRecords;
use crate::hosted_partition::{Found, HostedPartition, ReadRequest};

/// The records of a region as a Fetch request of `version` may see them: the region itself, or, up to v3, a copy in
/// an older format.
pub fn records_for(
    version: i16,
    hosted: &HostedPartition,
    request: &ReadRequest,
    region: Region<Disk>,
) -> Result<FetchedRecords, ErrorCode> {
    if fetch_format(Magic::V2, version).is_none() {
        return Ok(FetchedRecords::File(FileRegion {
            file: region.file.shared(),
            offset: region.position,
            len: region.bytes,
        }));
    }
    if !hosted.allows_down_conversion() {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let mut request = *request;
    let mut region = region;
    loop {
        let stored = read(&region)?;
        // Logs may be of mixed formats; what is old enough already is copied by the conversion.
        let Some(target) = newest(&stored).and_then(|magic| fetch_format(magic, version)) else {
            return Ok(FetchedRecords::Memory(stored));
        };
        let converted =
            down_convert(&stored, target, request.offset, request.bytes_max as usize, DECOMPRESSED_BYTES_MAX);
        let converted = converted.map_err(|error| {
            tracing::debug!(partition = %hosted.name(), %error, "records have no older form");
            error.code()
        })?;
        match converted.next_offset {
            // Nothing but transaction markers: an old client must not be left waiting in front of them.
            Some(next) if converted.bytes.is_empty() => match next_region(hosted, &mut request, next)? {
                Some(next) => region = next,
                None => return Ok(FetchedRecords::Nothing),
            },
            Some(_) => return Ok(FetchedRecords::Memory(converted.bytes.into())),
            // Not one whole batch fits into what the client asked for: it sees the cut and asks for more.
            None => return Ok(FetchedRecords::Memory(stored)),
        }
    }
}

fn newest(stored: &[u8]) -> Option<Magic> {
    Batches::new(stored).map_while(Result::ok).map(|batch| batch.header().magic).max()
}

fn next_region(
    hosted: &HostedPartition,
    request: &mut ReadRequest,
    next: Offset,
) -> Result<Option<Region<Disk>>, ErrorCode> {
    request.offset = next;
    match hosted.read(request).map_err(|failure| failure.code())?.records {
        Found::Records { region, .. } => Ok(region),
        Found::Diverging(_) => Ok(None),
    }
}

fn read(region: &Region<Disk>) -> Result<Bytes, ErrorCode> {
    let mut stored = vec![0; region.bytes as usize];
    region.file.read_exact_at(&mut stored, region.position).map_err(|error| {
        tracing::error!(%error, "cannot read records");
        ErrorCode::KafkaStorageError
    })?;
    Ok(stored.into())
}
