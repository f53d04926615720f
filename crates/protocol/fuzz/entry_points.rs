//! Where bytes from outside come in; the fuzz targets call these, and an ordinary test replays their corpora.
//!
//! Each panics if a message that was decoded does not encode, or comes back different.

// Every target uses one of them.
#![allow(dead_code)]

use bytes::{Bytes, BytesMut};
use ottla_protocol::messages::*;
use ottla_protocol::{ApiKey, Decoder, Encoder, Message, frame};

/// A request frame: header and body.
pub fn request(bytes: &[u8]) {
    let Ok((key, header, mut body)) = frame::decode_request_header(Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let version = header.request_api_version;
    comes_back(&header, key.request_header_version(version));
    macro_rules! api {
        ($api:ident, $request:ident, $response:ident) => {
            if key == ApiKey::$api {
                decode::<$request>(&mut body, version);
            }
        };
    }
    ottla_protocol::for_each_api!(api);
}

/// A response frame, behind one byte that picks the API and one for the version of its request.
pub fn response(bytes: &[u8]) {
    let [key, version, frame @ ..] = bytes else { return };
    let key = ApiKey::ALL[usize::from(*key) % ApiKey::ALL.len()];
    let version = i16::from(*version) % (key.versions().end() + 1);
    let Ok((_, mut body)) = frame::decode_response_header(Bytes::copy_from_slice(frame), key, version) else {
        return;
    };
    macro_rules! api {
        ($api:ident, $request:ident, $response:ident) => {
            if key == ApiKey::$api {
                decode::<$response>(&mut body, version);
            }
        };
    }
    ottla_protocol::for_each_api!(api);
}

/// A header, or a record of an internal topic, behind one byte for its version: every kind tries its luck.
pub fn data(bytes: &[u8]) {
    let [version, bytes @ ..] = bytes else { return };
    macro_rules! data {
        ($data:ident) => {
            let mut d = Decoder::new(Bytes::copy_from_slice(bytes));
            decode::<$data>(&mut d, i16::from(*version) % (<$data>::VERSIONS.end() + 1));
        };
    }
    ottla_protocol::for_each_data!(data);
}

fn decode<M: Message>(d: &mut Decoder, version: i16) {
    if let Ok(message) = M::decode(d, version) {
        comes_back(&message, version);
    }
}

/// Compares bytes rather than messages, since a float that is no number differs from itself.
fn comes_back<M: Message>(message: &M, version: i16) {
    let encode = |message: &M| {
        let mut out = BytesMut::new();
        message.encode(&mut Encoder::new(&mut out), version).expect("what was decoded can be encoded");
        out.freeze()
    };
    let bytes = encode(message);
    let mut d = Decoder::new(bytes.clone());
    let again = M::decode(&mut d, version).expect("what was encoded can be decoded");
    d.finish().expect("nothing is left over");
    assert_eq!(encode(&again), bytes, "{} v{version}", M::NAME);
}
