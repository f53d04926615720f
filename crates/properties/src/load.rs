//! Reading: `Properties.load(InputStream)` to the letter.

use crate::{Entry, Properties};

/// Why a file is not a properties file. Nearly everything is one: only `\u` escapes can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ParseError {
    /// The line on which the entry starts, counted from 1.
    pub line: usize,
    pub reason: Malformed,
}

/// What is wrong with an escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error(
        "malformed \\uxxxx escape: four hexadecimal digits have to follow \\u (write \\\\ for a backslash)"
    )]
    UnicodeEscape,
    /// Java keeps half a pair in its strings, and shows it as `?`; no text of ours can hold one.
    #[error("\\u{0:04X} is half of a surrogate pair, and the other half is missing")]
    UnpairedSurrogate(u16),
}

/// Reads a properties file.
///
/// Memory: a small multiple of the input. Fails only on a malformed `\u` escape.
pub fn parse(bytes: &[u8]) -> Result<Properties, ParseError> {
    let mut lines = LogicalLines { rest: bytes, line: 1 };
    let mut properties = Properties::default();
    let mut text = Vec::new();
    while let Some(line) = lines.next_into(&mut text) {
        let (key, value) = split(&text);
        let unescape = |raw| unescape(raw).map_err(|reason| ParseError { line, reason });
        properties.entries.push(Entry { key: unescape(key)?, value: unescape(value)?, line });
    }
    Ok(properties)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c')
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Natural lines joined into logical ones: comments and empty lines dropped, continuations spliced.
struct LogicalLines<'a> {
    rest: &'a [u8],
    /// The natural line that `rest` starts on.
    line: usize,
}

impl<'a> LogicalLines<'a> {
    /// Puts the next logical line, still escaped, into `text`; returns the line number it starts on.
    fn next_into(&mut self, text: &mut Vec<u8>) -> Option<usize> {
        text.clear();
        let mut first_line = self.line;
        // After a continuation a line end is not skipped with the blanks before it: it ends the entry.
        let mut continued = false;
        loop {
            self.skip_blanks(continued);
            if text.is_empty() {
                first_line = self.line;
                // So a `#` makes a comment even after a line that was nothing but a backslash.
                if matches!(self.rest.first(), Some(b'#' | b'!')) {
                    self.take_natural_line();
                    self.take_line_end();
                    continued = false;
                    continue;
                }
            }
            let natural = self.take_natural_line();
            text.extend_from_slice(natural);
            continued = natural.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1;
            if continued {
                text.pop();
            }
            // Where the file ends, Java makes an entry even of a lone backslash: one without key and value.
            // It looks for the end after one byte of line end, so that a last CRLF makes the difference.
            let at_end = self.rest.len() <= 1;
            self.take_line_end();
            if at_end {
                return (continued || !text.is_empty()).then_some(first_line);
            }
            if !continued && !text.is_empty() {
                return Some(first_line);
            }
        }
    }

    fn skip_blanks(&mut self, stop_at_line_end: bool) {
        while let Some(&byte) = self.rest.first() {
            if is_blank(byte) {
                self.rest = &self.rest[1..];
            } else if is_line_end(byte) && !stop_at_line_end {
                self.take_line_end();
            } else {
                return;
            }
        }
    }

    fn take_natural_line(&mut self) -> &'a [u8] {
        let length = self.rest.iter().position(|&byte| is_line_end(byte)).unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(length);
        self.rest = rest;
        line
    }

    /// Steps over CR, LF or CRLF; at the end of the file there is nothing to step over.
    fn take_line_end(&mut self) {
        let length = if self.rest.starts_with(b"\r\n") { 2 } else { self.rest.len().min(1) };
        self.rest = &self.rest[length..];
        self.line += usize::from(length > 0);
    }
}

/// Cuts a logical line, still escaped, at its first separator: blanks with at most one `=` or `:` among them.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let key_end = line
        .iter()
        .position(|&byte| {
            let ends = !escaped && (matches!(byte, b'=' | b':') || is_blank(byte));
            escaped = byte == b'\\' && !escaped;
            ends
        })
        .unwrap_or(line.len());
    let (key, rest) = line.split_at(key_end);
    let rest = trim_start(rest);
    (key, trim_start(rest.strip_prefix(b"=").or_else(|| rest.strip_prefix(b":")).unwrap_or(rest)))
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|&&byte| is_blank(byte)).count();
    &bytes[blanks..]
}

/// Latin-1 with escapes, made text. A backslash before any other character only vanishes.
fn unescape(mut raw: &[u8]) -> Result<String, Malformed> {
    // UTF-16 as in Java, so that two escapes, \uD83D\uDE00, make one character.
    let mut units = Vec::with_capacity(raw.len());
    while let Some((&byte, rest)) = raw.split_first() {
        raw = rest;
        units.push(match (byte, raw.split_first()) {
            (b'\\', Some((b'u', rest))) => {
                let (digits, rest) = rest.split_first_chunk().ok_or(Malformed::UnicodeEscape)?;
                raw = rest;
                hexadecimal(*digits).ok_or(Malformed::UnicodeEscape)?
            }
            (b'\\', Some((&escaped, rest))) => {
                raw = rest;
                u16::from(match escaped {
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b'f' => b'\x0c',
                    other => other,
                })
            }
            _ => u16::from(byte),
        });
    }
    char::decode_utf16(units)
        .collect::<Result<String, _>>()
        .map_err(|half| Malformed::UnpairedSurrogate(half.unpaired_surrogate()))
}

fn hexadecimal(digits: [u8; 4]) -> Option<u16> {
    digits.iter().try_fold(0, |value, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(value << 4 | digit as u16)
    })
}
