//! One message to several replicas, and their answers as they come.

use crate::coordinator::Coordinator;
use crate::replicas::{Silence, heard, name_of};
use crate::tracing::{TRACED, Tracer};
use crate::view::View;
use base::Instant;
use replica::{Request, Response};
use rpc::{CallError, Gather};
use runtime::Group;
use runtime::sync::Event;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use topology::Target;

/// What one replica says.
pub(super) type Vote = (Target, Result<Response, Silence>);

/// Answers that are on their way.
pub(super) struct Votes {
    targets: Vec<Target>,
    came: RefCell<VecDeque<Vote>>,
    more: Event,
    /// Of a request that is traced, with what its messages are called.
    tracer: Option<(Tracer, &'static str)>,
    until: Instant,
}

impl Votes {
    /// Sends a request to replicas. It runs to its end there whether or not somebody waits.
    pub(super) fn ask(
        coordinator: &Rc<Coordinator>,
        view: &View,
        targets: &[Target],
        request: &Request,
        until: Instant,
    ) -> Rc<Votes> {
        let name = name_of(request);
        let tracer = Tracer::of(view).map(|tracer| (tracer, name));
        let (came, more) = (RefCell::default(), Event::new());
        let votes = Rc::new(Votes { targets: targets.to_vec(), came, more, tracer, until });
        let mut bytes = Vec::new();
        for (number, target) in targets.iter().enumerate() {
            if target.host == view.snapshot.local_id() {
                votes.ask_here(coordinator, view, number, request);
                continue;
            }
            if bytes.is_empty() {
                request.encode_to(&mut bytes);
            }
            let tracer = votes.tracer.as_ref().map(|(tracer, _)| tracer);
            if let Some(tracer) = tracer {
                tracer.trace.note(format!("Sending {name}_REQ message to {}", tracer.name(target.host)));
            }
            let gather: Rc<dyn Gather> = votes.clone();
            let (version, to) = (view.point().1, (target.host, request.token()));
            let encode = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
            let sent = coordinator.send_there(version, to, until, (gather, number as u16), tracer, encode);
            if let Err(error) = sent {
                votes.push(number, heard(Err(error)));
            }
        }
        votes
    }

    fn ask_here(
        self: &Rc<Self>,
        coordinator: &Rc<Coordinator>,
        view: &View,
        number: usize,
        request: &Request,
    ) {
        let (votes, coordinator, request, on) =
            (self.clone(), coordinator.clone(), request.clone(), view.point());
        let ask = async move {
            let left = votes.until.saturating_duration_since(runtime::now());
            let answer = coordinator.ask_here(request, on, left).await;
            votes.push(number, answer);
        };
        drop(runtime::spawn_now(Group::QUERY, runtime::tracing::carry(ask)));
    }

    fn push(&self, number: usize, answer: Result<Response, Silence>) {
        self.came.borrow_mut().push_back((self.targets[number], answer));
        self.more.notify_all();
    }

    /// The next answer; `None`: it is too late.
    pub(super) async fn next(&self) -> Option<Vote> {
        loop {
            if let Some(vote) = self.came.borrow_mut().pop_front() {
                return Some(vote);
            }
            if runtime::timeout_at(self.until, self.more.wait()).await.is_err() {
                return None;
            }
        }
    }
}

impl Gather for Votes {
    fn answered(&self, index: u16, answer: Result<&[u8], CallError>) {
        let number = usize::from(if self.tracer.is_some() { index & !TRACED } else { index });
        let answer = match &self.tracer {
            Some((tracer, name)) => {
                tracer.heard(self.targets[number].host, name, index & TRACED != 0, answer)
            }
            None => answer,
        };
        self.push(number, heard(answer));
    }
}
