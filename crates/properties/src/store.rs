//! Writing: `Properties.store(OutputStream)`; the same bytes as Kafka's own `meta.properties`.

use std::fmt::Write as _;

/// The text of a file with `entries` in the order given.
///
/// ```text
/// #<comment>
/// #Mon Nov 30 17:44:46 UTC 2026
/// broker.id=0
/// ```
///
/// `now` is milliseconds since 1970. Characters outside Latin-1 are escaped, so any reader finds them again.
pub fn store<'a>(
    comment: &str,
    now_ms: i64,
    entries: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut text = String::new();
    // One line only: a line end inside would turn the rest of the comment into entries.
    let comment: String = comment.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "#{comment}\n#{}", date(now_ms));
    for (key, value) in entries {
        let _ = writeln!(text, "{}={}", escape_key(key), escape_value(value));
    }
    text
}

/// A key as a file must spell it: every blank escaped.
pub fn escape_key(key: &str) -> String {
    escape(key, true)
}

/// A value as a file must spell it: only a leading blank needs an escape.
pub fn escape_value(value: &str) -> String {
    escape(value, false)
}

fn escape(text: &str, every_blank: bool) -> String {
    let mut escaped = String::with_capacity(text.len() + 2);
    for (position, character) in text.chars().enumerate() {
        match character {
            ' ' if position > 0 && !every_blank => escaped.push(' '),
            ' ' | '=' | ':' | '#' | '!' | '\\' => escaped.extend(['\\', character]),
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\x0c' => escaped.push_str("\\f"),
            '\x20'..='\x7e' => escaped.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(escaped, "\\u{unit:04X}");
                }
            }
        }
    }
    escaped
}

/// A point in time as `java.util.Date` shows it, in UTC.
fn date(ms: i64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01 in 400-year eras: with the year starting in March the leap day comes last.
    let from_march = days + 719_468;
    let (era, day_of_era) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + i64::from(month < 2);
    format!(
        "{} {} {day:02} {:02}:{:02}:{:02} UTC {year}",
        WEEKDAYS[days.rem_euclid(7) as usize],
        MONTHS[month as usize],
        second / 3600,
        second / 60 % 60,
        second % 60,
    )
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_javas() {
        for (ms, text) in [
            (0, "Thu Jan 01 00:00:00 UTC 1970"),
            (-1, "Wed Dec 31 23:59:59 UTC 1969"),
            (951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000"),
            (4_107_542_400_000, "Mon Mar 01 00:00:00 UTC 2100"),
            (1_796_060_686_000, "Mon Nov 30 17:44:46 UTC 2026"),
        ] {
            assert_eq!(date(ms), text);
        }
    }
}
