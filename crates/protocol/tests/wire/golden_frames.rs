//! Frames that real clients and brokers have sent, kept in `golden/<api>/v<version>-<request|response>-<sender>.hex`.
//!
//! The first line of each file says where it came from; how to record more is in `examples/record_frames.rs`.

use std::fs;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use ottla_protocol::messages::{RequestHeader, ResponseHeader};
use ottla_protocol::{ApiKey, Encoder, Message, frame};

use crate::all_messages::{Role, Row, all_messages};

struct Golden {
    file: String,
    api: String,
    version: i16,
    is_request: bool,
    frame: Bytes,
}

fn golden_frames() -> Vec<Golden> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let mut frames = Vec::new();
    for folder in fs::read_dir(golden).unwrap() {
        let folder = folder.unwrap();
        for file in fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            let api = folder.file_name().into_string().unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let (version, rest) = name.strip_prefix('v').unwrap().split_once('-').unwrap();
            let (direction, _sender) = rest.split_once('-').unwrap();
            let text = fs::read_to_string(&path).unwrap();
            let (origin, hex) = text.split_once('\n').unwrap();
            assert!(origin.starts_with("# "), "{} says where it came from", path.display());
            frames.push(Golden {
                file: format!("{api}/{name}"),
                api,
                version: version.parse().unwrap(),
                is_request: match direction {
                    "request" => true,
                    "response" => false,
                    other => panic!("{}: neither request nor response but {other}", path.display()),
                },
                frame: bytes_of_hex(hex),
            });
        }
    }
    frames
}

fn bytes_of_hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The name of the API's folder: `ListOffsets` is in `list_offsets`.
fn folder_of(key: ApiKey) -> String {
    let mut name = String::new();
    for c in key.name().chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

fn row_of<'a>(rows: &'a [Row], golden: &Golden) -> (ApiKey, &'a Row) {
    let wanted = |row: &&Row| match row.role {
        Role::Request(key) => golden.is_request && folder_of(key) == golden.api,
        Role::Response(key) => !golden.is_request && folder_of(key) == golden.api,
        Role::Data => false,
    };
    let row = rows.iter().find(wanted).unwrap_or_else(|| panic!("{}: no such API", golden.file));
    match row.role {
        Role::Request(key) | Role::Response(key) => (key, row),
        Role::Data => unreachable!("data is not wanted"),
    }
}

/// Takes the frame apart and puts it together again.
fn again(key: ApiKey, row: &Row, golden: &Golden) -> BytesMut {
    let version = golden.version;
    let mut out = BytesMut::new();
    let body = if golden.is_request {
        let (read, header, body) = frame::decode_request_header(golden.frame.clone()).unwrap();
        assert_eq!((read, header.request_api_version), (key, version), "{}", golden.file);
        RequestHeader::encode(&header, &mut Encoder::new(&mut out), key.request_header_version(version))
            .unwrap();
        body
    } else {
        let (header, body) = frame::decode_response_header(golden.frame.clone(), key, version).unwrap();
        ResponseHeader::encode(&header, &mut Encoder::new(&mut out), key.response_header_version(version))
            .unwrap();
        body
    };
    match (row.transcode)(body.rest(), version, version) {
        Ok(body) => out.extend_from_slice(&body),
        Err(error) => panic!("{}: {error:?}", golden.file),
    }
    out
}

#[test]
fn frames_of_real_clients_and_brokers_come_back_byte_for_byte() {
    let rows = all_messages();
    for golden in golden_frames() {
        let (key, row) = row_of(&rows, &golden);
        assert_eq!(again(key, row, &golden), golden.frame, "{}", golden.file);
    }
}
