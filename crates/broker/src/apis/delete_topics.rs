//! DeleteTopics: topics and all their records, through the controller.

use std::collections::HashSet;
use std::time::Duration;

use ottla_model::{TopicName, Uuid};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::topics;

/// DeleteTopics: marks topics for deletion, which the controller then carries out (KIP-4).
///
/// Only the controller answers. v3+ may say that deletion is disabled (KIP-322); v5+ explains errors; v6+ names
/// topics by id as well (KIP-516). The answer waits until the topic is gone and can be made again, or for
/// `timeout_ms`: then the error is REQUEST_TIMED_OUT, and deletion goes on all the same.
pub const API: Api = Api { key: ApiKey::DeleteTopics, versions: 0..=6, handle };

/// One topic of the request, as it was named.
struct Wanted {
    name: Option<Str>,
    id: Uuid,
    found: Result<TopicName, ErrorCode>,
}

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: DeleteTopicsRequest = call.decode()?;
    let refused = if !call.broker.is_controller() {
        Some(ErrorCode::NotController)
    } else if !call.broker.config.topics.delete_enable {
        let disabled = ErrorCode::TopicDeletionDisabled;
        Some(if call.version < 3 { ErrorCode::InvalidRequest } else { disabled })
    } else {
        None
    };
    let mut wanted = wanted(&call, &request);
    if let Some(error) = refused {
        wanted.iter_mut().for_each(|topic| topic.found = Err(error));
        return Ok(Reply::Now(answer(&call, &wanted)));
    }
    let timeout = Duration::from_millis(request.timeout_ms.max(0) as u64);
    Ok(Reply::later(delete(call, wanted, timeout)))
}

fn wanted(call: &Call, request: &DeleteTopicsRequest) -> Vec<Wanted> {
    let by_name = |name: &Str| {
        let topic = call.broker.metadata.topic(name);
        let id = topic.as_ref().map_or(Uuid::ZERO, |topic| topic.id);
        let found = topic.map(|topic| topic.name.clone()).ok_or(ErrorCode::UnknownTopicOrPartition);
        Wanted { name: Some(name.clone()), id, found }
    };
    let by_id = |id: Uuid| {
        let topic = call.broker.metadata.topic_by_id(id);
        let name = topic.as_ref().map(|topic| Str::from(topic.name.as_str()));
        Wanted { name, id, found: topic.map(|topic| topic.name.clone()).ok_or(ErrorCode::UnknownTopicId) }
    };
    let mut wanted: Vec<Wanted> = if call.version >= 6 {
        let topics = request.topics.iter();
        topics.map(|topic| topic.name.as_ref().map_or_else(|| by_id(topic.topic_id), by_name)).collect()
    } else {
        request.topic_names.iter().map(by_name).collect()
    };
    if call.version >= 6 {
        refuse_ambiguous(request, &mut wanted);
    }
    wanted
}

/// By name and by id at once, or twice, once by each: it cannot be said what was meant.
fn refuse_ambiguous(request: &DeleteTopicsRequest, wanted: &mut [Wanted]) {
    let mut seen = HashSet::new();
    let names = wanted.iter().filter_map(|topic| topic.found.as_ref().ok());
    let twice: HashSet<TopicName> = names.filter(|name| !seen.insert((*name).clone())).cloned().collect();
    for (named, topic) in request.topics.iter().zip(wanted) {
        let both = named.name.is_some() && !named.topic_id.is_zero();
        if both {
            topic.id = named.topic_id;
        }
        if both || topic.found.as_ref().is_ok_and(|name| twice.contains(name)) {
            topic.found = Err(ErrorCode::InvalidRequest);
        }
    }
}

async fn delete(call: Call, mut wanted: Vec<Wanted>, timeout: Duration) -> Answer {
    for topic in &mut wanted {
        let Ok(name) = &topic.found else { continue };
        if let Err(error) = topics::mark_for_deletion(&call.broker, name).await {
            tracing::warn!(topic = %name, %error, "topic not marked for deletion");
            topic.found = Err(ErrorCode::UnknownServerError);
        }
    }
    let names: Vec<TopicName> =
        wanted.iter().filter_map(|topic| topic.found.as_ref().ok()).cloned().collect();
    let gone = async {
        let forgotten = topics::wait_until(&call.broker, timeout, |broker| {
            names.iter().all(|name| broker.metadata.topic(name).is_none())
        });
        if !forgotten.await {
            return false;
        }
        for name in &names {
            topics::deleted(&call.broker, name).await;
        }
        true
    };
    if !tokio::time::timeout(timeout, gone).await.unwrap_or(false) {
        for topic in &mut wanted {
            let remains = |name: &TopicName| timeout.is_zero() || call.broker.metadata.topic(name).is_some();
            if topic.found.as_ref().is_ok_and(remains) {
                topic.found = Err(ErrorCode::RequestTimedOut);
            }
        }
    }
    answer(&call, &wanted)
}

fn answer(call: &Call, wanted: &[Wanted]) -> Answer {
    let responses = wanted.iter().map(|topic| {
        let error = topic.found.as_ref().err().copied().unwrap_or(ErrorCode::None);
        DeletableTopicResult {
            name: topic.name.clone(),
            topic_id: topic.id,
            error_code: error as i16,
            error_message: None, // the code says it all
            ..Default::default()
        }
    });
    call.answer(&DeleteTopicsResponse { responses: responses.collect(), ..Default::default() })
}
