//! Which segments are old, or many, enough to go.

use ottla_files::Files;
use ottla_model::{Offset, Timestamp};

use crate::log::{Log, SegmentInfo};
use crate::storage_error::StorageError;

/// How much of a log is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// `retention.bytes`; `None` is no bound.
    pub bytes: Option<i64>,
    /// `retention.ms`; `None` keeps records for ever.
    pub ms: Option<i64>,
}

impl<F: Files> Log<F> {
    /// How many of the oldest segments may be [deleted](Log::delete_oldest_segments).
    ///
    /// Only whole segments below the high watermark go. A segment is as young as its youngest record, or, where no record
    /// has a timestamp, as its last write.
    pub fn deletable_segments(
        &self,
        retention: Retention,
        high_watermark: Offset,
        now: Timestamp,
    ) -> Result<usize, StorageError> {
        let mut segments = self.segments()?;
        if segments.iter().any(|segment| segment.max_timestamp < Timestamp(0)) {
            for (segment, (_, modified)) in segments.iter_mut().zip(self.segment_times()?) {
                if segment.max_timestamp < Timestamp(0) {
                    segment.max_timestamp = modified;
                }
            }
        }
        Ok(deletable(&segments, retention, self.log_start_offset(), high_watermark, now))
    }
}

/// Oldest first, and no further than the first that must stay: below the log start, too many bytes, too old.
fn deletable(
    segments: &[SegmentInfo],
    retention: Retention,
    log_start: Offset,
    high_watermark: Offset,
    now: Timestamp,
) -> usize {
    let Some((active, closed)) = segments.split_last() else { return 0 };
    let may_go = |segment: &SegmentInfo| segment.end_offset <= high_watermark;
    let active_may_go = active.bytes > 0 && may_go(active);
    let committed = closed.iter().take_while(|segment| may_go(segment)).count();
    let candidates = if committed == closed.len() && active_may_go { segments.len() } else { committed };

    let mut count = closed[..committed].iter().take_while(|segment| segment.end_offset <= log_start).count();
    if let Some(bytes) = retention.bytes {
        let total: u64 = segments[count..].iter().map(|segment| segment.bytes).sum();
        let mut excess = i128::from(total) - i128::from(bytes);
        while count < candidates && excess >= i128::from(segments[count].bytes) {
            excess -= i128::from(segments[count].bytes);
            count += 1;
        }
    }
    if let Some(ms) = retention.ms {
        let is_old = |segment: &SegmentInfo| now.0.saturating_sub(segment.max_timestamp.0) > ms;
        while count < candidates && is_old(&segments[count]) {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(100_000);

    /// Three closed segments of 10 offsets and 100 bytes and an active one, written at 10, 20, 30 and 40 seconds.
    fn segments(active_bytes: u64) -> Vec<SegmentInfo> {
        (0..4)
            .map(|i| SegmentInfo {
                base_offset: Offset(i * 10),
                end_offset: Offset(if i == 3 && active_bytes == 0 { 30 } else { i * 10 + 10 }),
                bytes: if i == 3 { active_bytes } else { 100 },
                max_timestamp: Timestamp((i + 1) * 10_000),
            })
            .collect()
    }

    #[test]
    fn segments_go_oldest_first_and_only_whole() {
        for (why, active, bytes, ms, log_start, high_watermark, count) in [
            ("nothing asks for it", 100, None, None, 0, 40, 0),
            ("below the log start", 100, None, None, 25, 40, 2),
            ("below the log start, which lies on a border", 100, None, None, 30, 40, 3),
            ("one segment too many", 100, Some(300), None, 0, 40, 1),
            ("a part of a segment too many is not enough", 100, Some(301), None, 0, 40, 0),
            ("nothing may be kept", 100, Some(0), None, 0, 40, 4),
            ("nothing may be kept, but the active one is empty", 0, Some(0), None, 0, 30, 3),
            ("two are too old", 100, None, Some(75_000), 0, 40, 2),
            ("exactly as old as allowed stays", 100, None, Some(90_000), 0, 40, 0),
            ("all are too old", 100, None, Some(1), 0, 40, 4),
            ("not yet committed everywhere", 100, None, Some(1), 0, 15, 1),
            ("the active one is not committed", 100, Some(0), None, 0, 39, 3),
            ("size and age together", 100, Some(300), Some(75_000), 0, 40, 2),
        ] {
            let retention = Retention { bytes, ms };
            let found =
                deletable(&segments(active), retention, Offset(log_start), Offset(high_watermark), NOW);
            assert_eq!(found, count, "{why}");
        }
    }

    #[test]
    fn timestamps_at_the_ends_of_the_range_do_no_harm() {
        let mut segments = segments(100);
        segments[0].max_timestamp = Timestamp(i64::MAX);
        let retention = Retention { bytes: None, ms: Some(0) };
        assert_eq!(
            deletable(&segments, retention, Offset(0), Offset(40), NOW),
            0,
            "a stamp from the future keeps it"
        );
    }
}
