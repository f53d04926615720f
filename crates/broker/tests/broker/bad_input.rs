//! What is no request, or none that is served.

use ottla_protocol::messages::FetchRequest;
use ottla_protocol::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use ottla_protocol::messages::metadata::MetadataRequest;
use ottla_protocol::{Decoder, ErrorCode, Message};

use crate::cluster::{Cluster, error, fetch_request};

/// A frame around these bytes.
fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// Key, version, correlation id 77, and the rest.
fn request(key: i16, version: i16, rest: &[u8]) -> Vec<u8> {
    framed(&[&key.to_be_bytes()[..], &version.to_be_bytes(), &77i32.to_be_bytes(), rest].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_talks_nonsense_is_hung_up_on_and_nobody_else() {
    let cluster = Cluster::start(&[]).await;
    let mut bystander = cluster.connect().await;
    let long_client_id = [&32_767u16.to_be_bytes()[..], b"short"].concat();
    let text = [&4u16.to_be_bytes()[..], &[0xff, 0xfe, 0xfd, 0xfc]].concat();
    for (why, bytes) in [
        ("a browser", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_vec()),
        ("a negative size", (-1i32).to_be_bytes().to_vec()),
        ("a size beyond the limit", i32::MAX.to_be_bytes().to_vec()),
        ("an empty frame", framed(&[])),
        ("half a header", framed(&[0, 3, 0])),
        ("an unknown key", request(9999, 0, &[0xff, 0xff])),
        ("a negative key", request(-1, 0, &[0xff, 0xff])),
        ("a key of KRaft", request(52, 0, &[0xff, 0xff, 0])),
        ("another one", request(62, 0, &[0xff, 0xff, 0])),
        ("a version to come", request(3, 32_767, &[0xff, 0xff])),
        ("a negative version", request(3, -1, &[0xff, 0xff])),
        ("a negative length of the client id", request(3, 1, &[0xff, 0xfe, 0, 0, 0, 0])),
        ("a client id longer than the frame", request(3, 1, &long_client_id)),
        ("a client id that is no text", request(3, 1, &[text, vec![0xff; 4]].concat())),
        ("an array longer than the frame", request(3, 1, &[0xff, 0xff, 0x7f, 0xff, 0xff, 0xff])),
        ("a body that ends early", request(1, 4, &[0xff, 0xff, 0, 0])),
    ] {
        let mut wire = cluster.connect().await;
        wire.write(&bytes).await;
        assert!(wire.frame().await.is_none(), "{why}");
        bystander.ask(1, &MetadataRequest::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_id_may_be_null_and_long() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    let long = [&32_000u16.to_be_bytes()[..], &[b'A'; 32_000], &(-1i32).to_be_bytes()].concat();
    for rest in [&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &long] {
        wire.write(&request(3, 1, rest)).await;
        assert!(wire.frame().await.is_some());
    }
}

/// KIP-511: told in the oldest layout, and the connection stays.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_versions_request_from_the_future_learns_what_there_is() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    for version in [5, 127, i16::MAX] {
        wire.write(&request(18, version, b"\xff\xff\0whatever comes then")).await;
        let frame = wire.frame().await.expect("an answer");
        let mut body = Decoder::new(frame);
        assert_eq!(body.int32(), Ok(77));
        let answer = ApiVersionsResponse::decode(&mut body, 0).unwrap();
        assert_eq!(error(answer.error_code), ErrorCode::UnsupportedVersion);
        let rows: Vec<_> =
            answer.api_keys.iter().map(|row| (row.api_key, row.min_version, row.max_version)).collect();
        assert_eq!(rows, [(18, 0, 4)]);
    }
    let known = wire.ask(4, &software("test")).await;
    assert_eq!(known.error_code, 0);
    assert!(known.api_keys.len() > 20);
    let odd = wire.ask(3, &software("not a name!")).await;
    assert_eq!(error(odd.error_code), ErrorCode::InvalidRequest);
}

fn software(name: &str) -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: name.into(),
        client_software_version: "1".into(),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_their_order() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    // A fetch that waits for its whole time, and behind it in the same write what could be answered at once.
    let mut slow = fetch_request("t", &[(0, 0)]);
    (slow.max_wait_ms, slow.min_bytes) = (300, 1 << 20);
    let mut bytes = wire.encode(4, &slow).to_vec();
    bytes.extend_from_slice(&wire.encode(1, &MetadataRequest::default()));
    bytes.extend_from_slice(&wire.encode(0, &ApiVersionsRequest::default()));
    wire.write(&bytes).await;
    wire.receive::<FetchRequest>(4).await;
    wire.receive::<MetadataRequest>(1).await;
    wire.receive::<ApiVersionsRequest>(0).await;

    let many: Vec<u8> = (0..10_000).flat_map(|_| wire.encode(0, &ApiVersionsRequest::default())).collect();
    wire.flood::<ApiVersionsRequest>(0, &many, 10_000).await;
}
