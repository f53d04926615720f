//! A store that loses one request or one answer, and counts.

use std::sync::Arc;
use std::sync::Mutex;

use ottla_zookeeper::{
    CreateMode, MultiError, Op, OpResult, Reply, SessionId, SessionState, Stat, Watch, ZkError, ZkStore,
};
use tokio::sync::watch;

/// What a broken connection takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The server never sees the request.
    Request,
    /// The server carries it out, and the answer does not arrive.
    Answer,
}

/// Passes on to another store.
pub struct LossyStore<S> {
    inner: S,
    counts: Arc<Mutex<Counts>>,
    /// The path of the last look that was to be followed by a watch.
    watched: watch::Sender<String>,
}

#[derive(Default)]
struct Counts {
    requests: usize,
    answers: usize,
    round_trips: usize,
    lose: Option<(usize, Loss)>,
    lost: bool,
}

impl<S: ZkStore> LossyStore<S> {
    pub fn new(inner: S) -> LossyStore<S> {
        LossyStore { inner, counts: Arc::default(), watched: watch::Sender::default() }
    }

    /// The request with this number, counted from 0, is lost.
    pub fn lose(&self, nth: usize, loss: Loss) {
        self.counts.lock().expect("no panic").lose = Some((nth, loss));
    }

    pub fn has_lost(&self) -> bool {
        self.counts.lock().expect("no panic").lost
    }

    pub fn requests(&self) -> usize {
        self.counts.lock().expect("no panic").requests
    }

    /// Waits until a watch on that path has been asked for.
    pub async fn watched(&self, path: &str) {
        self.watched.subscribe().wait_for(|watched| watched == path).await.expect("the sender is here");
    }

    /// How often a request was made with all the ones before it answered.
    pub fn round_trips(&self) -> usize {
        self.counts.lock().expect("no panic").round_trips
    }

    fn pass<T: Send + 'static, E: From<Lost> + Send + 'static>(
        &self,
        path: &str,
        request: impl FnOnce(&S) -> Reply<T, E>,
    ) -> Reply<T, E> {
        let mut counts = self.counts.lock().expect("no panic");
        if counts.answers == counts.requests {
            counts.round_trips += 1;
        }
        let nth = counts.requests;
        counts.requests += 1;
        let loss = counts.lose.filter(|(lost, _)| *lost == nth).map(|(_, loss)| loss);
        counts.lost |= loss.is_some();
        drop(counts);
        let lost = Lost(path.to_owned());
        let reply = match loss {
            Some(Loss::Request) => Box::pin(std::future::ready(Err(E::from(Lost(path.to_owned()))))),
            _ => request(&self.inner),
        };
        let counts = self.counts.clone();
        Box::pin(async move {
            let answer = reply.await;
            counts.lock().expect("no panic").answers += 1;
            if loss == Some(Loss::Answer) { Err(E::from(lost)) } else { answer }
        })
    }
}

struct Lost(String);

impl From<Lost> for ZkError {
    fn from(Lost(path): Lost) -> ZkError {
        ZkError::OutcomeUnknown { path, detail: "lost by the test".to_owned() }
    }
}

impl From<Lost> for MultiError {
    fn from(lost: Lost) -> MultiError {
        MultiError { index: None, source: lost.into() }
    }
}

impl<S: ZkStore> ZkStore for LossyStore<S> {
    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        self.pass(path, |store| store.get(path))
    }

    fn get_and_watch(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        self.pass(path, |store| store.get_and_watch(path))
    }

    fn children(&self, path: &str) -> Reply<(Vec<String>, Stat)> {
        self.pass(path, |store| store.children(path))
    }

    fn children_and_watch(&self, path: &str) -> Reply<(Vec<String>, Stat, Watch)> {
        self.pass(path, |store| store.children_and_watch(path))
    }

    fn exists(&self, path: &str) -> Reply<Option<Stat>> {
        self.pass(path, |store| store.exists(path))
    }

    fn exists_and_watch(&self, path: &str) -> Reply<(Option<Stat>, Watch)> {
        let reply = self.pass(path, |store| store.exists_and_watch(path));
        let (watched, path) = (self.watched.clone(), path.to_owned());
        Box::pin(async move {
            let answer = reply.await;
            watched.send_replace(path);
            answer
        })
    }

    fn create(&self, path: &str, data: &[u8], mode: CreateMode) -> Reply<String> {
        self.pass(path, |store| store.create(path, data, mode))
    }

    fn set(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat> {
        self.pass(path, |store| store.set(path, data, version))
    }

    fn delete(&self, path: &str, version: Option<i32>) -> Reply<()> {
        self.pass(path, |store| store.delete(path, version))
    }

    fn multi(&self, ops: Vec<Op>) -> Reply<Vec<OpResult>, MultiError> {
        let path = ops.first().map_or("", Op::path).to_owned();
        self.pass(&path, |store| store.multi(ops))
    }

    fn session(&self) -> SessionId {
        self.inner.session()
    }

    fn was_ours(&self, session: SessionId) -> bool {
        self.inner.was_ours(session)
    }

    fn states(&self) -> watch::Receiver<SessionState> {
        self.inner.states()
    }

    fn reopen(&self) -> Reply<SessionId> {
        self.inner.reopen()
    }

    fn close(&self) -> Reply<()> {
        self.inner.close()
    }
}
