//! Queries that have not ended, with the controllers that they came over.

use std::collections::BTreeMap;

use byway_spec::Status;
use byway_spec::vendor::QueryAnswer;

use super::engine::{
    AtOnce, QueryEngine, QueryFailure, QueryLimits, QueryProgress, QueryRequest, QueryState,
};
use crate::error::CommandError;
use crate::id::{ControllerId, QueryId};

/// Queries of a subsystem.
#[derive(Debug)]
pub(crate) struct QueryTable {
    engine: Box<dyn QueryEngine>,
    queries: BTreeMap<QueryId, Entry>,
    last: u16,
    /// Failures of queries that were cancelled, for the commands that wait for them.
    failed: Vec<Answered>,
    /// Short queries that may still be tried in this hold of the run lock.
    at_once_left: u32,
}

/// Most short queries that are tried in one hold of the run lock: other commands wait for all of them.
const AT_ONCE_MAX: u32 = 32;

#[derive(Debug)]
struct Entry {
    owner: ControllerId,
    nsid: u32,
    /// Bytes of the result that its host has.
    result_offset_bytes: u64,
    /// A command waits for it.
    is_awaited: bool,
    /// The engine keeps all of its result until it has ended.
    buffers_whole_result: bool,
    result: ResultAt,
}

/// Where the result of a query is.
#[derive(Debug)]
enum ResultAt {
    /// The engine makes it.
    Engine,
    /// Here: all of it.
    Here(Vec<u8>),
}

/// A query that a command waited for, and that has an answer now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub owner: ControllerId,
    pub id: QueryId,
    pub answer: Result<Answer, QueryFailure>,
    /// Modelled time of the answer, in picoseconds.
    pub at_ps: u64,
}

/// What there is of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub ready_bytes: u64,
    pub has_ended: bool,
}

impl Answer {
    /// DW0 and DW1 of the command that waited for it.
    pub fn words(self, id: QueryId) -> [u32; 2] {
        let dw0 = QueryAnswer::new().with_id(id.0).with_ended(self.has_ended);
        [dw0.into_bits(), u32::try_from(self.ready_bytes).unwrap_or(u32::MAX)]
    }
}

/// A part of a result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub bytes: Vec<u8>,
    /// What is there behind it.
    pub rest: Answer,
    /// Modelled time at which it was there, in picoseconds.
    pub at_ps: u64,
}

impl QueryTable {
    pub fn new(engine: Box<dyn QueryEngine>) -> Self {
        Self { engine, queries: BTreeMap::new(), last: 0, failed: Vec::new(), at_once_left: AT_ONCE_MAX }
    }

    /// Has another engine execute queries from now on. Those of the last one fail.
    pub fn replace_engine(&mut self, engine: Box<dyn QueryEngine>) {
        let text = "the device has another engine for queries since";
        self.fail_each(|_| true, &QueryFailure { status: Status::QUERY_FAILED, text: text.to_owned() });
        self.engine = engine;
    }

    /// A thread has acquired the run lock.
    #[inline]
    pub fn begin_hold(&mut self) {
        self.at_once_left = AT_ONCE_MAX;
    }

    /// Limits of its engine.
    pub fn limits(&self) -> QueryLimits {
        self.engine.limits()
    }

    /// Begins a query, which a command waits for.
    pub fn begin(
        &mut self,
        owner: ControllerId,
        nsid: u32,
        mut request: QueryRequest,
    ) -> Result<QueryId, CommandError> {
        self.check_room()?;
        // A command may still wait for the failure of a query that was cancelled.
        let is_failed = |id: &QueryId| self.failed.iter().any(|failed| failed.id == *id);
        let is_free = |id: &QueryId| !self.queries.contains_key(id) && !is_failed(id);
        let ids = (1..=u16::MAX).map(|step| QueryId(self.last.wrapping_add(step)));
        let id = ids.into_iter().find(is_free).ok_or(TOO_MANY)?;
        self.last = id.0;
        let buffers_whole_result = request.buffers_whole_result;
        let result = match self.run_at_once(&mut request) {
            Some(result) => ResultAt::Here(result),
            None => {
                self.engine.begin(id, request)?;
                ResultAt::Engine
            }
        };
        self.queries.insert(
            id,
            Entry { owner, nsid, result_offset_bytes: 0, is_awaited: true, buffers_whole_result, result },
        );
        Ok(id)
    }

    /// The result of a query that was executed before its command is answered.
    fn run_at_once(&mut self, request: &mut QueryRequest) -> Option<Vec<u8>> {
        let (query, value) = request.as_short().filter(|_| self.at_once_left > 0)?;
        let result = match self.engine.run_at_once(query, value) {
            AtOnce::NotCached => return None,
            AtOnce::Aborted => None,
            AtOnce::Done(result) => Some(result),
        };
        self.at_once_left -= 1;
        result
    }

    /// How far a query is.
    fn progress(&self, id: QueryId, entry: &Entry) -> QueryProgress {
        match &entry.result {
            ResultAt::Engine => self.engine.progress(id),
            ResultAt::Here(result) => QueryProgress {
                ready_bytes: result.len() as u64 - entry.result_offset_bytes,
                state: QueryState::Ended,
                at_ps: 0,
            },
        }
    }

    /// Notes that a command waits for more of a result.
    pub fn wait(&mut self, owner: ControllerId, nsid: u32, id: QueryId) -> Result<(), CommandError> {
        let entry = self.entry(owner, nsid, id)?;
        if entry.is_awaited {
            return Err(CommandError::new(
                Status::COMMAND_SEQUENCE_ERROR,
                "another command waits for the query",
            ));
        }
        self.queries.entry(id).and_modify(|entry| entry.is_awaited = true);
        self.engine.mark_ready(id);
        Ok(())
    }

    /// The answer to the command that waits for `id`, if there is one already.
    pub fn answer(&mut self, id: QueryId) -> Option<Answered> {
        let entry = self.queries.get(&id).filter(|entry| entry.is_awaited)?;
        let progress = self.progress(id, entry);
        let has_ended = match progress.state {
            QueryState::Running => return None,
            QueryState::Streaming if entry.buffers_whole_result => return None,
            QueryState::Streaming => false,
            QueryState::Ended => true,
            QueryState::Failed(failure) => {
                let owner = entry.owner;
                self.cancel(id);
                return Some(Answered { owner, id, answer: Err(failure), at_ps: progress.at_ps });
            }
        };
        let owner = entry.owner;
        self.queries.entry(id).and_modify(|entry| entry.is_awaited = false);
        let answer = Ok(Answer { ready_bytes: progress.ready_bytes, has_ended });
        Some(Answered { owner, id, answer, at_ps: progress.at_ps })
    }

    /// DW0 and DW1 for the command that has begun `id`, if that query has ended as it was begun.
    pub fn answered_at_once(&mut self, id: QueryId) -> Option<[u32; 2]> {
        self.queries.get(&id).filter(|entry| matches!(entry.result, ResultAt::Here(_)))?;
        self.answer(id)?.answer.ok().map(|answer| answer.words(id))
    }

    /// The next query that has an answer for the command that waits for it.
    pub fn next_answered(&mut self) -> Option<Answered> {
        if let Some(failed) = self.failed.pop() {
            return Some(failed);
        }
        while let Some(id) = self.engine.next_ready() {
            if let Some(answered) = self.answer(id) {
                return Some(answered);
            }
        }
        None
    }

    /// The part of a result behind `result_offset_bytes` that its host has, at most `max_bytes`.
    pub fn part(
        &mut self,
        owner: ControllerId,
        nsid: u32,
        (id, result_offset_bytes): (QueryId, u64),
        max_bytes: usize,
    ) -> Result<Part, CommandError> {
        let entry = self.entry(owner, nsid, id)?;
        if entry.result_offset_bytes != result_offset_bytes {
            return Err(NOT_THERE);
        }
        // Asked first: what comes meanwhile is of a query that has not ended.
        let progress = self.progress(id, entry);
        let part_bytes = max_bytes.min(progress.ready_bytes as usize);
        let bytes = match &entry.result {
            ResultAt::Engine => self.engine.peek(id, part_bytes),
            ResultAt::Here(result) => result[result_offset_bytes as usize..][..part_bytes].to_vec(),
        };
        let ready_bytes = progress.ready_bytes - bytes.len() as u64;
        let rest = Answer { ready_bytes, has_ended: progress.state == QueryState::Ended };
        Ok(Part { bytes, rest, at_ps: progress.at_ps })
    }

    /// Notes that a host has a part of a result. A query that has no more is forgotten.
    pub fn take(&mut self, id: QueryId, part: &Part) {
        let Some(entry) = self.queries.get_mut(&id) else { return };
        entry.result_offset_bytes += part.bytes.len() as u64;
        if let ResultAt::Engine = entry.result {
            self.engine.take(id, part.bytes.len());
        }
        if part.is_last() {
            self.cancel(id);
        }
    }

    /// Cancels a query as its host asks.
    pub fn cancel_of(&mut self, owner: ControllerId, nsid: u32, id: QueryId) -> Result<(), CommandError> {
        if self.entry(owner, nsid, id)?.is_awaited {
            return Err(CommandError::new(Status::COMMAND_SEQUENCE_ERROR, "a command waits for the query"));
        }
        self.cancel(id);
        Ok(())
    }

    /// Cancels a query.
    pub fn cancel(&mut self, id: QueryId) {
        if let Some(Entry { result: ResultAt::Engine, .. }) = self.queries.remove(&id) {
            self.engine.cancel(id);
        }
    }

    /// Fails the queries of namespace `nsid`, or all for `None`: what they read is erased. Commands that wait for them fail.
    pub fn fail_all_in(&mut self, nsid: Option<u32>) {
        let text = "the namespace was erased while the query read it".to_owned();
        let failure = QueryFailure { status: Status::QUERY_OBJECT_CHANGED, text };
        self.fail_each(|entry| nsid.is_none_or(|nsid| nsid == entry.nsid), &failure);
    }

    fn fail_each(&mut self, fails: impl Fn(&Entry) -> bool, failure: &QueryFailure) {
        let its: Vec<(QueryId, ControllerId, bool)> = (self.queries.iter())
            .filter(|(_, entry)| fails(entry))
            .map(|(id, entry)| (*id, entry.owner, entry.is_awaited))
            .collect();
        for (id, owner, is_awaited) in its {
            if is_awaited {
                self.failed.push(Answered { owner, id, answer: Err(failure.clone()), at_ps: 0 });
                self.engine.mark_ready(id);
            }
            self.cancel(id);
        }
    }

    /// Whether there is room for one more query.
    pub fn check_room(&self) -> Result<(), CommandError> {
        let most = usize::from(self.engine.limits().queries);
        if self.queries.len() < most { Ok(()) } else { Err(TOO_MANY) }
    }

    /// Cancels the queries of a controller.
    pub fn cancel_all_of(&mut self, owner: ControllerId) {
        let its: Vec<QueryId> =
            self.queries.iter().filter(|(_, entry)| entry.owner == owner).map(|(id, _)| *id).collect();
        its.into_iter().for_each(|id| self.cancel(id));
    }

    fn entry(&self, owner: ControllerId, nsid: u32, id: QueryId) -> Result<&Entry, CommandError> {
        let is_its = |entry: &&Entry| entry.owner == owner && entry.nsid == nsid;
        self.queries.get(&id).filter(is_its).ok_or(UNKNOWN)
    }
}

impl Part {
    /// Whether the result ends with it.
    pub fn is_last(&self) -> bool {
        self.rest.has_ended && self.rest.ready_bytes == 0
    }
}

const UNKNOWN: CommandError =
    CommandError::new(Status::QUERY_UNKNOWN, "no query of this identifier goes on in this namespace")
        .at_byte(44);
const NOT_THERE: CommandError =
    CommandError::new(Status::COMMAND_SEQUENCE_ERROR, "parts of a result are taken in order").at_byte(48);
const TOO_MANY: CommandError =
    CommandError::new(Status::QUERY_RESOURCES_EXCEEDED, "as many queries go on as the device can keep");

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use byway_spec::vendor::QueryFormat;

    use super::*;
    use crate::query::{QueryObject, ShortQuery};

    /// Does with a short query what its text says.
    struct Engine;

    impl QueryEngine for Engine {
        fn limits(&self) -> QueryLimits {
            QueryLimits { text_bytes: 100, queries: u16::MAX }
        }

        fn run_at_once(&mut self, query: ShortQuery<'_>, _: &mut Vec<u8>) -> AtOnce {
            match query.text {
                "ready" => AtOnce::Done(Vec::new()),
                "long" => AtOnce::Aborted,
                _ => AtOnce::NotCached,
            }
        }

        fn begin(&mut self, _: QueryId, _: QueryRequest) -> Result<(), CommandError> {
            Ok(())
        }

        fn progress(&self, _: QueryId) -> QueryProgress {
            QueryProgress { ready_bytes: 0, state: QueryState::Running, at_ps: 0 }
        }

        fn peek(&self, _: QueryId, _: usize) -> Vec<u8> {
            Vec::new()
        }

        fn take(&mut self, _: QueryId, _: usize) {}

        fn cancel(&mut self, _: QueryId) {}

        fn mark_ready(&mut self, _: QueryId) {}

        fn next_ready(&mut self) -> Option<QueryId> {
            None
        }
    }

    /// How many of 100 queries are executed at once, behind others of this text.
    fn executed_at_once_behind(text: &str) -> usize {
        let mut table = QueryTable::new(Box::new(Engine));
        let mut begin = |text: &str| {
            let object = QueryObject::Copied(Vec::new());
            let request = QueryRequest {
                text: text.to_owned(),
                object,
                format: QueryFormat::CSV,
                has_header: false,
                explains: false,
                buffers_whole_result: false,
                begun_ps: 0,
            };
            let id = table.begin(ControllerId(1), 1, request).unwrap();
            table.answered_at_once(id).is_some()
        };
        (0..20).for_each(|_| assert!(!begin(text)));
        (0..100).filter(|_| begin("ready")).count()
    }

    #[test]
    fn short_queries_that_were_not_tried_leave_their_time_to_others() {
        assert_eq!(executed_at_once_behind("unknown"), AT_ONCE_MAX as usize);
        assert_eq!(executed_at_once_behind("long"), AT_ONCE_MAX as usize - 20);
    }
}
