//! Every message as a row, so that a proof about one is a proof about all.

use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};
use ottla_protocol::messages::*;
use ottla_protocol::{ApiKey, DecodeError, Decoder, EncodeError, Encoder, Message};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Request(ApiKey),
    Response(ApiKey),
    Data,
}

#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    pub role: Role,
    pub versions: RangeInclusive<i16>,
    /// Decodes and drops the message.
    pub decode: fn(Bytes, i16) -> Result<(), DecodeError>,
    /// Decodes in the first version and encodes in the second.
    pub transcode: fn(Bytes, i16, i16) -> Result<BytesMut, TranscodeError>,
}

#[derive(Debug, PartialEq)]
pub enum TranscodeError {
    Decode(DecodeError),
    Encode(EncodeError),
}

fn decode<M: Message>(bytes: Bytes, version: i16) -> Result<(), DecodeError> {
    M::decode(&mut Decoder::new(bytes), version).map(drop)
}

fn transcode<M: Message>(bytes: Bytes, from: i16, to: i16) -> Result<BytesMut, TranscodeError> {
    let mut d = Decoder::new(bytes);
    let message = M::decode(&mut d, from).map_err(TranscodeError::Decode)?;
    d.finish().map_err(TranscodeError::Decode)?;
    let mut out = BytesMut::new();
    message.encode(&mut Encoder::new(&mut out), to).map_err(TranscodeError::Encode)?;
    Ok(out)
}

fn row<M: Message>(role: Role) -> Row {
    Row { name: M::NAME, role, versions: M::VERSIONS, decode: decode::<M>, transcode: transcode::<M> }
}

pub fn all_messages() -> Vec<Row> {
    let mut rows = Vec::new();
    macro_rules! api {
        ($api:ident, $request:ident, $response:ident) => {
            rows.push(row::<$request>(Role::Request(ApiKey::$api)));
            rows.push(row::<$response>(Role::Response(ApiKey::$api)));
        };
    }
    macro_rules! data {
        ($data:ident) => {
            rows.push(row::<$data>(Role::Data));
        };
    }
    ottla_protocol::for_each_api!(api);
    ottla_protocol::for_each_data!(data);
    rows
}
