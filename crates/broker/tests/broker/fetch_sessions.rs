//! Fetch sessions (KIP-227) from v7 on.

use ottla_protocol::messages::fetch::{FetchRequest, FetchResponse, FetchTopic, ForgottenTopic};
use ottla_protocol::{ErrorCode, Str};

use crate::cluster::{Cluster, batch, error, fetch_request, values};
use crate::wire::Wire;

/// A connection with a session over partitions 0 to 2 of topic `t`, all empty.
struct Session {
    wire: Wire,
    version: i16,
    topic: FetchTopic,
    id: i32,
    epoch: i32,
}

impl Session {
    async fn open(cluster: &Cluster, version: i16) -> (Session, FetchResponse) {
        let mut wire = cluster.connect().await;
        let mut request = fetch_request("t", &[(0, 0), (1, 0), (2, 0)]);
        request.session_epoch = 0;
        let topic = &mut request.topics[0];
        if version >= 13 {
            topic.topic_id = wire.topic_id("t").await;
        }
        let named = FetchTopic { topic: Str::from("t"), topic_id: topic.topic_id, ..Default::default() };
        let answer = wire.ask(version, &request).await;
        assert_eq!(answer.error_code, 0);
        let session = Session { wire, version, topic: named, id: answer.session_id, epoch: 1 };
        (session, answer)
    }

    fn request(&self, partitions: &[(i32, i64)]) -> FetchRequest {
        let mut request = fetch_request("t", partitions);
        request.topics[0].topic_id = self.topic.topic_id;
        if partitions.is_empty() {
            request.topics.clear();
        }
        (request.session_id, request.session_epoch) = (self.id, self.epoch);
        request
    }

    async fn go_on(&mut self, request: &FetchRequest) -> FetchResponse {
        let answer = self.wire.ask(self.version, request).await;
        assert_eq!((error(answer.error_code), answer.session_id), (ErrorCode::None, self.id));
        self.epoch += 1;
        answer
    }
}

fn partitions(answer: &FetchResponse) -> Vec<i32> {
    answer
        .responses
        .iter()
        .flat_map(|topic| &topic.partitions)
        .map(|partition| partition.partition_index)
        .collect()
}

async fn cluster() -> Cluster {
    let cluster = Cluster::start(&[]).await;
    cluster.connect().await.create_topic("t", 3, 1, &[]).await;
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_answers_only_news_in_every_version() {
    let cluster = cluster().await;
    let mut producer = cluster.connect().await;
    for version in 7..=17 {
        let (mut session, opened) = Session::open(&cluster, version).await;
        assert!(session.id > 0, "v{version}");
        assert_eq!(partitions(&opened), [0, 1, 2], "v{version}: a full fetch is answered in full");
        let quiet = session.go_on(&session.request(&[])).await;
        let with_data: Vec<i32> = opened.responses[0]
            .partitions
            .iter()
            .filter(|partition| partition.records.as_ref().is_some_and(|records| !records.is_empty()))
            .map(|partition| partition.partition_index)
            .collect();
        assert_eq!(partitions(&quiet), with_data, "v{version}: data is news until it is asked past");

        let end = producer.produce("t", 1, batch(&["a", "b"])).await.base_offset + 2;
        let news = session.go_on(&session.request(&[(1, end - 2)])).await;
        assert_eq!(partitions(&news), [1], "v{version}");
        assert_eq!(values(&news.responses[0].partitions[0].records), ["a", "b"], "v{version}");
        let past = session.go_on(&session.request(&[(1, end)])).await;
        assert!(past.responses.is_empty(), "v{version}: {past:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_partition_is_not_told_of_any_more() {
    let cluster = cluster().await;
    let (mut session, _) = Session::open(&cluster, 12).await;
    let mut request = session.request(&[]);
    request.forgotten_topics_data =
        vec![ForgottenTopic { topic: Str::from("t"), partitions: vec![1], ..Default::default() }];
    session.go_on(&request).await;
    for partition in [0, 1] {
        session.wire.produce("t", partition, batch(&["x"])).await;
    }
    assert_eq!(partitions(&session.go_on(&session.request(&[])).await), [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_do_not_fit_their_session_are_told_why() {
    let cluster = cluster().await;
    for (why, id, epoch, version, expected) in [
        ("unknown", 1, 1, 12, ErrorCode::FetchSessionIdNotFound),
        ("an epoch skipped", 0, 2, 12, ErrorCode::InvalidFetchSessionEpoch),
        ("by id in a session by name", 0, 1, 13, ErrorCode::FetchSessionTopicIdError),
    ] {
        let (mut session, _) = Session::open(&cluster, 12).await;
        let mut request = session.request(&[]);
        (request.session_id, request.session_epoch) = (if id == 0 { session.id } else { id }, epoch);
        let answer = session.wire.ask(version, &request).await;
        assert_eq!((error(answer.error_code), answer.session_id), (expected, 0), "{why}");
        assert!(answer.responses.is_empty(), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_asked_and_when_it_has_nothing_left() {
    let cluster = cluster().await;
    for forget in [false, true] {
        let (mut session, _) = Session::open(&cluster, 12).await;
        let mut request = session.request(&[]);
        if forget {
            let partitions = vec![0, 1, 2];
            request.forgotten_topics_data =
                vec![ForgottenTopic { topic: Str::from("t"), partitions, ..Default::default() }];
        } else {
            request = session.request(&[(0, 0)]);
            request.session_epoch = -1;
        }
        let answer = session.wire.ask(12, &request).await;
        assert_eq!((answer.error_code, answer.session_id), (0, 0));
        assert_eq!(partitions(&answer).len(), usize::from(!forget));
        let gone = session.wire.ask(12, &session.request(&[])).await;
        assert_eq!(error(gone.error_code), ErrorCode::FetchSessionIdNotFound);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_free_slot_a_fetch_goes_without_a_session() {
    let cluster = Cluster::start(&[("max.incremental.fetch.session.cache.slots", "1")]).await;
    cluster.connect().await.create_topic("t", 3, 1, &[]).await;
    let (first, _) = Session::open(&cluster, 12).await;
    let (second, answer) = Session::open(&cluster, 12).await;
    assert!(first.id > 0);
    assert_eq!(second.id, 0);
    assert_eq!(partitions(&answer), [0, 1, 2]);
}

/// Its own limit is weeks away: nothing but the append can end the wait.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_wakes_a_parked_incremental_fetch() {
    let cluster = cluster().await;
    let (mut session, _) = Session::open(&cluster, 13).await;
    session.go_on(&session.request(&[])).await;
    let mut request = session.request(&[]);
    request.max_wait_ms = i32::MAX;
    session.wire.send(13, &request).await;
    cluster.connect().await.produce("t", 2, batch(&["woken"])).await;
    let answer = session.wire.receive::<FetchRequest>(13).await;
    assert_eq!(partitions(&answer), [2]);
    assert_eq!(values(&answer.responses[0].partitions[0].records), ["woken"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_fetch_collects_from_several_partitions_until_it_has_enough() {
    let cluster = cluster().await;
    let (mut session, _) = Session::open(&cluster, 12).await;
    let size = batch(&["0123456789"]).len() as i32;
    let mut request = session.request(&[]);
    (request.max_wait_ms, request.min_bytes) = (i32::MAX, 3 * size);
    session.wire.send(12, &request).await;
    let mut producer = cluster.connect().await;
    for partition in [2, 0, 0] {
        producer.produce("t", partition, batch(&["0123456789"])).await;
    }
    let answer = session.wire.receive::<FetchRequest>(12).await;
    assert_eq!(partitions(&answer), [0, 2]);
    let sizes =
        answer.responses[0].partitions.iter().map(|partition| partition.records.as_ref().unwrap().len());
    assert_eq!(sizes.collect::<Vec<_>>(), [2 * size as usize, size as usize]);
}
