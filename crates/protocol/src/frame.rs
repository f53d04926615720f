//! What goes around a message on a connection: its size, and a header.
//!
//! ```text
//! request   size int32 | api key int16, version int16, correlation id int32 | client id (v1+) | tags (v2) | body
//! response  size int32 | correlation id int32 | tags (v1) | body
//! ```
//!
//! The size counts what follows it. Whoever reads the socket takes it off, and compares it with its limit first.

use bytes::{BufMut, Bytes, BytesMut};

use crate::messages::{RequestHeader, ResponseHeader};
use crate::{ApiKey, DecodeError, Decoder, EncodeError, Encoder, Message, Request};

/// Bytes of the size in front of every frame.
pub const SIZE_BYTES: usize = 4;

impl ApiKey {
    /// The version of the header in front of a request of this version.
    ///
    /// 2 where the request is flexible, else 1; but 0, without a client id, for the first ControlledShutdown.
    pub fn request_header_version(self, version: i16) -> i16 {
        match self {
            ApiKey::ControlledShutdown if version == 0 => 0,
            _ if self.is_request_flexible(version) => 2,
            _ => 1,
        }
    }

    /// The version of the header in front of a response of this version.
    ///
    /// 1 where the response is flexible, else 0; always 0 for ApiVersions, whose answer may come in a version that the
    /// client did not ask for (KIP-511).
    pub fn response_header_version(self, version: i16) -> i16 {
        match self {
            ApiKey::ApiVersions => 0,
            _ => i16::from(self.is_response_flexible(version)),
        }
    }
}

/// Why a request was not taken apart. Kafka closes the connection on all of these but one: an ApiVersions request of an unknown
/// version is answered with version 0 and UNSUPPORTED_VERSION.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("no request header: {0}")]
    Header(DecodeError),
    #[error("unknown api key {key} (version {version}, correlation id {correlation_id})")]
    UnknownApiKey { key: i16, version: i16, correlation_id: i32 },
    #[error(
        "{} has versions {} to {}, not {version} (correlation id {correlation_id})",
        key.name(), key.versions().start(), key.versions().end()
    )]
    UnsupportedVersion { key: ApiKey, version: i16, correlation_id: i32 },
}

/// Takes the header off a request frame (without its size) and leaves the decoder at the body.
///
/// The first eight bytes are the same in every header version and decide which one it is; a key or version that no schema
/// knows is told apart from a broken header, since the caller may have an answer to it.
pub fn decode_request_header(frame: Bytes) -> Result<(ApiKey, RequestHeader, Decoder), RequestError> {
    let mut d = Decoder::new(frame);
    let mut start = d.clone();
    let mut fixed = || Ok((start.int16()?, start.int16()?, start.int32()?));
    let (key, version, correlation_id) = fixed().map_err(RequestError::Header)?;
    let Some(api) = ApiKey::from_i16(key) else {
        return Err(RequestError::UnknownApiKey { key, version, correlation_id });
    };
    if !api.versions().contains(&version) {
        return Err(RequestError::UnsupportedVersion { key: api, version, correlation_id });
    }
    let header =
        RequestHeader::decode(&mut d, api.request_header_version(version)).map_err(RequestError::Header)?;
    Ok((api, header, d))
}

/// Takes the header off a response frame (without its size) and leaves the decoder at the body.
pub fn decode_response_header(
    frame: Bytes,
    key: ApiKey,
    version: i16,
) -> Result<(ResponseHeader, Decoder), DecodeError> {
    let mut d = Decoder::new(frame);
    let header = ResponseHeader::decode(&mut d, key.response_header_version(version))?;
    Ok((header, d))
}

/// Appends a whole request: size, header, body. After an error the buffer is as it was.
pub fn encode_request<R: Request>(
    out: &mut BytesMut,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    request: &R,
) -> Result<(), EncodeError> {
    let header = RequestHeader {
        request_api_key: R::KEY as i16,
        request_api_version: version,
        correlation_id,
        client_id: client_id.map(Into::into),
        ..RequestHeader::default()
    };
    encode_frame(out, |out| {
        header.encode(out, R::KEY.request_header_version(version))?;
        request.encode(out, version)
    })
}

/// Appends a whole response: size, header, body. After an error the buffer is as it was.
pub fn encode_response<M: Message>(
    out: &mut BytesMut,
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    response: &M,
) -> Result<(), EncodeError> {
    encode_frame(out, |out| {
        encode_response_header(out, key, version, correlation_id)?;
        response.encode(out, version)
    })
}

/// The header of a response, for bodies that are written by hand.
pub fn encode_response_header(
    out: &mut Encoder<'_>,
    key: ApiKey,
    version: i16,
    correlation_id: i32,
) -> Result<(), EncodeError> {
    let header = ResponseHeader { correlation_id, ..ResponseHeader::default() };
    header.encode(out, key.response_header_version(version))
}

/// Appends what `content` writes, with its size in front. After an error the buffer is as it was.
pub fn encode_frame(
    out: &mut BytesMut,
    content: impl FnOnce(&mut Encoder<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.put_i32(0);
    let written = content(&mut Encoder::new(out)).and_then(|()| {
        let length = out.len() - start - SIZE_BYTES;
        i32::try_from(length).map_err(|_| EncodeError::TooLong { length })
    });
    match written {
        Ok(size) => {
            out[start..start + SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Str;
    use crate::messages::{
        ApiVersionsRequest, ApiVersionsResponse, ControlledShutdownRequest, HeartbeatRequest,
        HeartbeatResponse, MetadataRequest,
    };

    fn frame(parts: &[&[u8]]) -> Bytes {
        Bytes::from(parts.concat())
    }

    /// Metadata v1, correlation id 7: a header of version 1.
    const METADATA_V1: &[u8] = &[0, 3, 0, 1, 0, 0, 0, 7];
    /// Metadata v9: flexible, a header of version 2.
    const METADATA_V9: &[u8] = &[0, 3, 0, 9, 0, 0, 0, 7];

    #[test]
    fn client_ids_are_null_or_whole_or_close_the_connection() {
        let long = "A".repeat(32767);
        for (why, start, client_id, read) in [
            ("null is legal", METADATA_V1, &[0xff, 0xff][..], Ok(None)),
            ("empty", METADATA_V1, &[0, 0], Ok(Some(""))),
            ("short", METADATA_V1, &[0, 2, b'm', b'e'], Ok(Some("me"))),
            ("not compact in v2 either", METADATA_V9, &[0, 2, b'm', b'e', 0], Ok(Some("me"))),
            (
                "as long as can be said",
                METADATA_V1,
                &[&[0x7f, 0xff], long.as_bytes()].concat(),
                Ok(Some(&long[..])),
            ),
            (
                "length -2",
                METADATA_V1,
                &[0xff, 0xfe],
                Err(DecodeError::NegativeLength { position: 8, length: -2 }),
            ),
            (
                "longer than the frame",
                METADATA_V1,
                &[0x7f, 0xff, b'm', b'e'],
                Err(DecodeError::Truncated { position: 10, needed: 32767, remaining: 2 }),
            ),
            ("not UTF-8", METADATA_V1, &[0, 2, 0xc3, 0x28], Err(DecodeError::InvalidUtf8 { position: 10 })),
            (
                "missing",
                METADATA_V1,
                &[],
                Err(DecodeError::Truncated { position: 8, needed: 2, remaining: 0 }),
            ),
        ] {
            match (decode_request_header(frame(&[start, client_id])), read) {
                (Ok((key, header, body)), Ok(client_id)) => {
                    assert_eq!((key, header.correlation_id), (ApiKey::Metadata, 7), "{why}");
                    assert_eq!(header.client_id.as_deref(), client_id, "{why}");
                    assert_eq!(body.remaining(), 0, "{why}");
                }
                (got, read) => {
                    assert_eq!(got.err(), read.err().map(RequestError::Header), "{why}");
                }
            }
        }
    }

    #[test]
    fn strangers_are_told_apart_from_broken_headers() {
        let unknown = |key, version| RequestError::UnknownApiKey { key, version, correlation_id: 1 };
        let version = |key, version| RequestError::UnsupportedVersion { key, version, correlation_id: 1 };
        for (why, bytes, error) in [
            ("key 9999", [0x27, 0x0f, 0, 0, 0, 0, 0, 1], unknown(9999, 0)),
            ("key -1", [0xff, 0xff, 0, 5, 0, 0, 0, 1], unknown(-1, 5)),
            ("ApiVersions of the future", [0, 18, 0, 127, 0, 0, 0, 1], version(ApiKey::ApiVersions, 127)),
            ("version 32767", [0, 3, 0x7f, 0xff, 0, 0, 0, 1], version(ApiKey::Metadata, 32767)),
            ("version -1", [0, 3, 0xff, 0xff, 0, 0, 0, 1], version(ApiKey::Metadata, -1)),
        ] {
            assert_eq!(decode_request_header(frame(&[&bytes])).err(), Some(error), "{why}");
        }
        for length in 0..8 {
            let cut = decode_request_header(Bytes::copy_from_slice(&METADATA_V1[..length]));
            assert!(
                matches!(cut, Err(RequestError::Header(DecodeError::Truncated { .. }))),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn header_versions_follow_the_body_but_for_two() {
        for (why, key, version, request, response) in [
            ("before flexible versions", ApiKey::Metadata, 8, 1, 0),
            ("flexible", ApiKey::Metadata, 9, 2, 1),
            ("never flexible", ApiKey::SaslHandshake, 1, 1, 0),
            ("flexible from the start", ApiKey::ListTransactions, 0, 2, 1),
            ("ApiVersions answers in header 0 for ever", ApiKey::ApiVersions, 3, 2, 0),
            ("ApiVersions as of old", ApiKey::ApiVersions, 0, 1, 0),
            ("no client id in the first ControlledShutdown", ApiKey::ControlledShutdown, 0, 0, 0),
            ("ControlledShutdown later", ApiKey::ControlledShutdown, 1, 1, 0),
        ] {
            let got = (key.request_header_version(version), key.response_header_version(version));
            assert_eq!(got, (request, response), "{why}");
        }
    }

    #[test]
    fn a_request_comes_back_as_it_went() {
        let request = HeartbeatRequest { group_id: "g".into(), generation_id: 3, ..Default::default() };
        for version in HeartbeatRequest::VERSIONS {
            let mut out = BytesMut::new();
            encode_request(&mut out, version, 11, Some("me"), &request).unwrap();
            let size = i32::from_be_bytes(out[..SIZE_BYTES].try_into().unwrap());
            assert_eq!(size as usize, out.len() - SIZE_BYTES);
            let (key, header, mut body) = decode_request_header(out.split_off(SIZE_BYTES).freeze()).unwrap();
            assert_eq!(
                (key, header.request_api_version, header.correlation_id),
                (ApiKey::Heartbeat, version, 11)
            );
            assert_eq!(header.client_id, Some(Str::from("me")));
            assert_eq!(HeartbeatRequest::decode(&mut body, version).as_ref(), Ok(&request));
            body.finish().unwrap();
        }
        let mut out = BytesMut::new();
        encode_request(&mut out, 0, 5, Some("dropped"), &ControlledShutdownRequest::default()).unwrap();
        assert_eq!(out[..], [0, 0, 0, 12, 0, 7, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0], "no client id at all");
    }

    #[test]
    fn a_response_comes_back_as_it_went() {
        let response = HeartbeatResponse { error_code: 25, ..Default::default() };
        let mut out = BytesMut::from(&b"earlier"[..]);
        encode_response(&mut out, ApiKey::Heartbeat, 4, 11, &response).unwrap();
        let frame = out.split_off(7 + SIZE_BYTES).freeze();
        let (header, mut body) = decode_response_header(frame, ApiKey::Heartbeat, 4).unwrap();
        assert_eq!(header.correlation_id, 11);
        assert_eq!(HeartbeatResponse::decode(&mut body, 4), Ok(response));
        body.finish().unwrap();
    }

    #[test]
    fn the_answer_to_a_future_api_versions_is_version_0() {
        let mut out = BytesMut::new();
        let answer = ApiVersionsResponse { error_code: 35, ..Default::default() };
        encode_response(&mut out, ApiVersionsRequest::KEY, 0, 9, &answer).unwrap();
        assert_eq!(out[..], [0, 0, 0, 10, 0, 0, 0, 9, 0, 35, 0, 0, 0, 0]);
    }

    #[test]
    fn a_message_that_cannot_be_written_leaves_nothing_behind() {
        let mut out = BytesMut::from(&b"earlier"[..]);
        let request = MetadataRequest { topics: None, ..Default::default() };
        let error = encode_request(&mut out, 0, 1, None, &request);
        let null =
            EncodeError::NullNotInVersion { structure: "MetadataRequest", field: "topics", version: 0 };
        assert_eq!(error, Err(null));
        assert_eq!(out[..], *b"earlier");
    }
}
