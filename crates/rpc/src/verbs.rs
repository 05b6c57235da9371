//! What the crates above answer: verb → (scheduling group, handler).

use crate::hello::Class;
use base::{HostId, Instant};
use runtime::Group;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// Who is at the other end of a connection, after both hellos.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Its host id.
    pub host: HostId,
    /// Its shard at this connection.
    pub shard: u16,
    /// What it knows how to do.
    pub features: u64,
    /// The protocol agreed on.
    pub protocol: u16,
    /// What the connection is for.
    pub class: Class,
}

/// A request of another node, its body borrowed from the connection.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What is asked.
    pub verb: u8,
    /// The version of metadata that the sender acted on.
    pub version: u64,
    /// Until when the sender waits.
    pub until: Instant,
    /// The rest.
    pub body: &'a [u8],
    /// Who asks.
    pub from: &'a Origin,
}

/// Where answers go: a connection.
pub(crate) trait AnswerPath {
    fn answer(self: Rc<Self>, call: u64, write: &mut dyn FnMut(&mut Vec<u8>));
    /// The call is over, answered or not; so many bytes of it were worked on.
    fn ended(self: Rc<Self>, call: u64, bytes: usize, answered: bool);
    /// A call besides that of the request gets no answer.
    fn give_up(self: Rc<Self>, call: u64);
    fn expired(&self);
}

/// The way back for one of several answers that a request wants; dropping it says that there will be none.
pub struct Beside {
    path: Rc<dyn AnswerPath>,
    call: u64,
    until: Instant,
    answered: bool,
}

impl Beside {
    /// Answers with what `write` appends, unless it is too late.
    pub fn send(mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.answered = true;
        answer(&self.path, self.call, self.until, write);
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.answered {
            self.path.clone().give_up(self.call);
        }
    }
}

fn answer(path: &Rc<dyn AnswerPath>, call: u64, until: Instant, write: impl FnOnce(&mut Vec<u8>)) {
    if until <= runtime::now() {
        return path.expired();
    }
    let mut write = Some(write);
    path.clone().answer(call, &mut |out| {
        if let Some(write) = write.take() {
            write(out);
        }
    });
}

/// The way back to who asked; dropping it says that there will be no answer.
pub struct Responder {
    path: Rc<dyn AnswerPath>,
    call: u64,
    until: Instant,
    bytes: usize,
    answered: bool,
}

impl Responder {
    pub(crate) fn new(path: Rc<dyn AnswerPath>, call: u64, until: Instant, bytes: usize) -> Responder {
        Responder { path, call, until, bytes, answered: false }
    }

    /// Until when the caller waits.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Answers with what `write` appends, unless it is too late.
    pub fn send(mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.answered = true;
        answer(&self.path, self.call, self.until, write);
    }

    /// The way back for another answer that the same request wants, by a call that its body names.
    pub fn beside(&self, call: u64) -> Beside {
        Beside { path: self.path.clone(), call, until: self.until, answered: false }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.path.clone().ended(self.call, self.bytes, self.answered);
    }
}

/// A future of this shard.
pub type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Answers the requests of one verb on one shard.
pub trait Serve {
    /// Answers within this step by appending the answer to `out`, or says false: then [`Serve::begin`] is asked, and what was appended is
    /// forgotten. Runs in the group of the connection's reader.
    fn now(&self, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        let _not_in_one_step = (request, out);
        false
    }

    /// Begins work whose end is said through `answer`. The future runs in the verb's group; it is polled once before the next request is
    /// looked at. When `answer` is dropped, the caller learns that there will be none.
    fn begin(&self, request: &Request<'_>, answer: Responder) -> LocalFuture;
}

/// The handlers of one shard.
#[derive(Default)]
pub struct Registry {
    verbs: Vec<Option<(Group, Rc<dyn Serve>)>>,
    features: u64,
}

impl Registry {
    /// No verbs.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Has a handler answer a verb. Panics when it has one: verbs are never reused.
    pub fn on(mut self, verb: u8, group: Group, handler: Rc<dyn Serve>) -> Registry {
        let index = usize::from(verb);
        if self.verbs.len() <= index {
            self.verbs.resize_with(index + 1, || None);
        }
        assert!(self.verbs[index].is_none(), "verb {verb} has a handler");
        self.verbs[index] = Some((group, handler));
        self
    }

    /// Has a function answer a verb within a step.
    pub fn on_now(self, verb: u8, answer: impl Fn(&Request<'_>, &mut Vec<u8>) + 'static) -> Registry {
        self.on(verb, Group::RPC, Rc::new(Now(answer)))
    }

    /// Has a future answer a verb; the function takes what it needs of the request.
    pub fn on_future<F, Fut>(self, verb: u8, group: Group, begin: F) -> Registry
    where
        F: Fn(&Request<'_>) -> Fut + 'static,
        Fut: Future<Output = Vec<u8>> + 'static,
    {
        self.on(verb, group, Rc::new(Later(begin)))
    }

    /// Has the node's hellos say that it knows what these bits stand for: peers look at them before they use a verb that older releases do not know.
    pub fn with_features(mut self, bits: u64) -> Registry {
        self.features |= bits;
        self
    }

    pub(crate) fn features(&self) -> u64 {
        self.features
    }

    pub(crate) fn find(&self, verb: u8) -> Option<&(Group, Rc<dyn Serve>)> {
        self.verbs.get(usize::from(verb))?.as_ref()
    }
}

struct Now<F>(F);

impl<F: Fn(&Request<'_>, &mut Vec<u8>)> Serve for Now<F> {
    fn now(&self, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        (self.0)(request, out);
        true
    }

    fn begin(&self, request: &Request<'_>, answer: Responder) -> LocalFuture {
        answer.send(|out| (self.0)(request, out));
        Box::pin(std::future::ready(()))
    }
}

struct Later<F>(F);

impl<F, Fut> Serve for Later<F>
where
    F: Fn(&Request<'_>) -> Fut + 'static,
    Fut: Future<Output = Vec<u8>> + 'static,
{
    fn begin(&self, request: &Request<'_>, answer: Responder) -> LocalFuture {
        let work = (self.0)(request);
        Box::pin(async move {
            let body = work.await;
            answer.send(|out| out.extend_from_slice(&body));
        })
    }
}
