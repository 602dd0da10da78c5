//! Queries of the subsystem: where they come to the engine, and what the engine reads of namespaces.

use byway_flash::Flash;
use byway_kv::Key;
use byway_spec::Status;
use byway_spec::vendor::BlockObject;

use super::{IN_PROGRESS, NO_NAMESPACE, Subsystem};
use crate::error::CommandError;
use crate::id::{ControllerId, QueryId};
use crate::namespace::{KvNamespace, Namespace};
use crate::outcome::{Done, ExternalWork};
use crate::query::command::Named;
use crate::query::{
    Answered, BlockObjectReader, QueryEngine, QueryFailure, QueryObject, QueryTable, ValueVersion,
};

impl Subsystem {
    /// Gives the device an engine for queries, in place of the last one. Hosts that have read Identify before do not know of it.
    pub fn set_query_engine(&mut self, engine: Box<dyn QueryEngine>) {
        match &mut self.queries {
            Some(queries) => queries.replace_engine(engine),
            None => self.queries = Some(Box::new(QueryTable::new(engine))),
        }
    }

    /// Longest text of a query in bytes; 0 where there is no engine.
    pub(crate) fn query_text_max_bytes(&self) -> u32 {
        self.queries.as_ref().map_or(0, |queries| queries.limits().text_bytes)
    }

    /// Queries that go on, if there is an engine.
    pub(crate) fn queries(&mut self) -> Result<&mut QueryTable, CommandError> {
        self.queries.as_deref_mut().ok_or(NO_ENGINE)
    }

    /// Cancels the queries of a controller.
    pub(crate) fn cancel_queries_of(&mut self, owner: ControllerId) {
        self.queries.iter_mut().for_each(|queries| queries.cancel_all_of(owner));
    }

    /// Fails the queries of a namespace that is erased, or of all for `None`.
    pub(super) fn fail_queries_in(&mut self, nsid: Option<u32>) {
        self.queries.iter_mut().for_each(|queries| queries.fail_all_in(nsid));
    }

    /// Cancels a query.
    pub(super) fn cancel_query(&mut self, id: QueryId) {
        self.queries.iter_mut().for_each(|queries| queries.cancel(id));
    }

    /// The next command that waited for a query and has its answer.
    pub(super) fn next_answered_query(&mut self) -> Option<Done> {
        let answered = self.queries.as_mut()?.next_answered()?;
        let (result, text) = match answered.answer {
            Ok(answer) => (Ok(answer.words(answered.id)), None),
            Err(QueryFailure { status, text }) => {
                (Err(CommandError::new(status, "the query failed")), Some(text))
            }
        };
        let Answered { owner, id, at_ps, .. } = answered;
        Some(Done { owner, work: ExternalWork::Query(id), result, text, at_ps })
    }

    /// The object that a query of a namespace names. `at_ps` as for [`read_value_of`](Self::read_value_of).
    pub(crate) fn query_object(
        &mut self,
        nsid: u32,
        named: Named,
        at_ps: &mut u64,
    ) -> Result<QueryObject, CommandError> {
        if self.flash.is_following() {
            return Err(OF_ANOTHER_PROCESS);
        }
        self.queries()?.check_room()?;
        match named {
            Named::Key(key) => {
                let (kv, flash) = self.key_values(nsid)?;
                kv.query_object(flash, nsid, &key, at_ps)
            }
            Named::Blocks(object) => {
                self.watch_blocks(nsid, object).map(|reader| QueryObject::Blocks(Box::new(reader)))
            }
        }
    }

    /// A reader of blocks. From here on every change of the namespace is made under the run lock, where it is noted.
    fn watch_blocks(&mut self, nsid: u32, object: BlockObject) -> Result<BlockObjectReader, CommandError> {
        let slot = self
            .slots
            .get_mut((nsid as usize).wrapping_sub(1))
            .and_then(Option::as_mut)
            .ok_or(NO_NAMESPACE)?;
        let Namespace::Nvm(nvm) = &mut slot.namespace else { return Err(NO_OBJECTS) };
        let range = nvm.object_range(object)?;
        // Where a range is watched, no thread has a permit to write any more.
        if !nvm.is_watched() {
            slot.version.change();
        }
        let watch = nvm.watch(range);
        let permit = slot.version.permit(self.flash.block_reader(nvm.record().extent));
        Ok(BlockObjectReader { nsid, at: range.at, len_bytes: range.len, permit, watch })
    }

    /// Fills `into` from byte `at` of a value, if it is there, and says which value it is. `known` is the value of which a part before was
    /// read: of that one, each page of flash is read once. `at_ps` is the modelled time at which the read begins, and moves on to where it ends.
    ///
    /// # Errors
    /// The namespace or the key is gone; what the flash says.
    pub fn read_value_of(
        &mut self,
        nsid: u32,
        key: &Key,
        known: Option<&ValueVersion>,
        at: u64,
        into: &mut [u8],
        at_ps: &mut u64,
    ) -> Result<ValueVersion, CommandError> {
        let (kv, flash) = self.key_values(nsid)?;
        kv.read_value(flash, key, known, at, into, at_ps)
    }

    /// Fills `into` from byte `at` of an object of blocks. Modelled time as for [`read_value_of`](Self::read_value_of).
    ///
    /// # Errors
    /// The namespace is gone; what the flash says.
    pub fn read_blocks_of(
        &mut self,
        object: &BlockObjectReader,
        at: u64,
        into: &mut [u8],
        at_ps: &mut u64,
    ) -> Result<(), CommandError> {
        self.check_not_sanitizing()?;
        let (namespace, flash) = self.parts_of(object.nsid).ok_or(NO_NAMESPACE)?;
        // A namespace that was made anew with the same identifier has other watches.
        if object.has_changed() {
            return Err(CommandError::new(Status::QUERY_OBJECT_CHANGED, "the object was changed"));
        }
        namespace.nvm()?.read_at(flash, object.at + at, into, at_ps)
    }

    fn check_not_sanitizing(&self) -> Result<(), CommandError> {
        if self.is_sanitizing() { Err(IN_PROGRESS) } else { Ok(()) }
    }

    /// Invalid Command Opcode where a namespace has no keys.
    pub(crate) fn check_has_keys(&mut self, nsid: u32) -> Result<(), CommandError> {
        self.key_values(nsid).map(|_| ())
    }

    /// A key-value namespace and the flash.
    pub(super) fn key_values(&mut self, nsid: u32) -> Result<(&mut KvNamespace, &mut Flash), CommandError> {
        self.check_not_sanitizing()?;
        let (namespace, flash) = self.parts_of(nsid).ok_or(NO_NAMESPACE)?;
        namespace.kv().map(|kv| (kv, flash))
    }
}

const NO_ENGINE: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "the device executes no queries").at_byte(0);
const NO_OBJECTS: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "what is exported takes no queries").at_byte(0);
const OF_ANOTHER_PROCESS: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "another process writes the image: it executes queries")
        .at_byte(0);
