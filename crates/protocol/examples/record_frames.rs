//! A proxy between a client and a real broker that keeps the frames it sees: what `golden/` is made of.
//!
//! ```text
//! cargo run -p ottla-protocol --example record_frames -- LISTEN UPSTREAM FOLDER CLIENT BROKER [VERSION]
//! ```
//!
//! `CLIENT` and `BROKER` name both ends, such as `kafka-clients-3.9.1`. With `VERSION`, the broker's ApiVersions answer is cut down
//! to it on the way, so that a client which negotiates speaks this version, or the nearest below. The broker has to advertise the
//! proxy's address. Of each API, version and direction the longest frame up to 1,500 bytes is kept, or the shortest beyond.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use bytes::{Bytes, BytesMut};
use ottla_protocol::messages::{ApiVersionsResponse, RequestHeader};
use ottla_protocol::{ApiKey, Message, frame};

/// Frames beyond this are kept only where there is no shorter one.
const FRAME_BYTES_WANTED_MAX: usize = 1500;

/// What a client of today cannot do without, whatever `VERSION` says. Older versions of these come from older clients.
const VERSIONS_NEEDED: [(ApiKey, i16); 4] =
    [(ApiKey::Produce, 3), (ApiKey::Fetch, 4), (ApiKey::Metadata, 4), (ApiKey::FindCoordinator, 2)];

struct Recorder {
    folder: PathBuf,
    client: String,
    broker: String,
    version_max: Option<i16>,
    /// One frame at a time, so that the longest wins.
    writing: Mutex<()>,
}

/// Requests of one connection that wait for their response, by correlation id.
type Waiting = Mutex<HashMap<i32, (ApiKey, i16)>>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (listen, upstream, folder, client, broker, version) = match arguments.as_slice() {
        [listen, upstream, folder, client, broker] => (listen, upstream, folder, client, broker, None),
        [listen, upstream, folder, client, broker, version] => {
            (listen, upstream, folder, client, broker, Some(version.parse()?))
        }
        _ => return Err("usage: record_frames LISTEN UPSTREAM FOLDER CLIENT BROKER [VERSION]".into()),
    };
    let recorder = Arc::new(Recorder {
        folder: folder.into(),
        client: client.clone(),
        broker: broker.clone(),
        version_max: version,
        writing: Mutex::new(()),
    });
    for client in TcpListener::bind(listen)?.incoming() {
        let client = client?;
        let broker = match TcpStream::connect(upstream) {
            Ok(broker) => broker,
            // The broker is not up yet, or down for a restart: the client sees a closed connection and tries again.
            Err(error) => {
                eprintln!("{upstream}: {error}");
                continue;
            }
        };
        let waiting = Arc::new(Waiting::default());
        relay(client.try_clone()?, broker.try_clone()?, {
            let (recorder, waiting) = (recorder.clone(), waiting.clone());
            move |frame| recorder.request(frame, &waiting)
        });
        relay(broker, client, {
            let recorder = recorder.clone();
            move |frame| recorder.response(frame, &waiting)
        });
    }
    Ok(())
}

/// Carries frames one way until either end closes.
fn relay(from: TcpStream, to: TcpStream, pass: impl Fn(Bytes) -> Bytes + Send + 'static) {
    thread::spawn(move || {
        let (mut reader, mut writer) = (&from, &to);
        let carried = (|| -> io::Result<()> {
            loop {
                let mut size = [0; frame::SIZE_BYTES];
                reader.read_exact(&mut size)?;
                let mut frame = vec![0; u32::from_be_bytes(size) as usize];
                reader.read_exact(&mut frame)?;
                let frame = pass(frame.into());
                writer.write_all(&(frame.len() as u32).to_be_bytes())?;
                writer.write_all(&frame)?;
            }
        })();
        if let Err(error) = carried
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            eprintln!("{error}");
        }
        for stream in [from, to] {
            // The other direction may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
}

impl Recorder {
    fn request(&self, frame: Bytes, waiting: &Waiting) -> Bytes {
        match frame::decode_request_header(frame.clone()) {
            Ok((key, header, _)) => {
                let RequestHeader { request_api_version: version, correlation_id, .. } = header;
                waiting.lock().unwrap().insert(correlation_id, (key, version));
                self.keep(key, version, "request", &self.client, &frame);
            }
            Err(error) => eprintln!("{error}"),
        }
        frame
    }

    fn response(&self, frame: Bytes, waiting: &Waiting) -> Bytes {
        let correlation_id = frame.first_chunk().map(|id| i32::from_be_bytes(*id));
        let Some((key, version)) = correlation_id.and_then(|id| waiting.lock().unwrap().remove(&id)) else {
            eprintln!("a response to no request: {correlation_id:?}");
            return frame;
        };
        self.keep(key, version, "response", &self.broker, &frame);
        match (key, self.version_max) {
            (ApiKey::ApiVersions, Some(version_max)) => {
                cut_down(&frame, version, version_max).unwrap_or(frame)
            }
            _ => frame,
        }
    }

    fn keep(&self, key: ApiKey, version: i16, direction: &str, sender: &str, frame: &[u8]) {
        let folder = self.folder.join(snake_case(key.name()));
        let path = folder.join(format!("v{version}-{direction}-{sender}.hex"));
        let _one_at_a_time = self.writing.lock().unwrap();
        if !is_better(frame.len(), kept_length(&path)) {
            return;
        }
        let mut text = format!(
            "# {} {direction} v{version} of {}, recorded between {} and {} by examples/record_frames.rs\n",
            key.name(),
            sender,
            self.client,
            self.broker
        );
        for line in frame.chunks(32) {
            for byte in line {
                write!(text, "{byte:02x}").expect("a string takes everything");
            }
            text.push('\n');
        }
        if let Err(error) = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)) {
            eprintln!("{}: {error}", path.display());
        }
    }
}

fn is_better(length: usize, kept_length: usize) -> bool {
    let too_long = |length| length > FRAME_BYTES_WANTED_MAX;
    match (too_long(length), too_long(kept_length)) {
        (false, false) => length > kept_length,
        (false, true) => true,
        (true, false) => kept_length == 0,
        (true, true) => length < kept_length,
    }
}

/// Bytes of the frame that the file holds, 0 if there is none.
fn kept_length(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().skip(1).map(|line| line.len() / 2).sum()
}

/// The ApiVersions answer without versions above `version_max`; APIs that start above it stay as they are.
fn cut_down(frame: &Bytes, version: i16, version_max: i16) -> Option<Bytes> {
    let (header, mut body) =
        frame::decode_response_header(frame.clone(), ApiKey::ApiVersions, version).ok()?;
    let mut response = ApiVersionsResponse::decode(&mut body, version).ok()?;
    for api in &mut response.api_keys {
        let needed = VERSIONS_NEEDED.iter().find(|(key, _)| *key as i16 == api.api_key);
        let version_max = needed.map_or(version_max, |(_, version)| version_max.max(*version));
        api.max_version = api.max_version.min(version_max).max(api.min_version);
    }
    let mut out = BytesMut::new();
    frame::encode_response(&mut out, ApiKey::ApiVersions, version, header.correlation_id, &response).ok()?;
    Some(out.freeze().slice(frame::SIZE_BYTES..))
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}
