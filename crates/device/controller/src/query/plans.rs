//! Texts of queries that come in parts (Write Execution Plan), and the queries that have begun with them.

use byway_spec::Status;
use byway_spec::vendor::PlanFields;

use crate::error::CommandError;
use crate::id::QueryId;

/// Most plans of a controller at a time.
const PLANS_MAX: usize = 16;

/// Plans of one controller.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    plans: Vec<Plan>,
    last: u16,
}

#[derive(Debug)]
struct Plan {
    id: u16,
    nsid: u32,
    object: (u32, u32),
    state: PlanState,
}

#[derive(Debug)]
enum PlanState {
    /// Its parts come.
    Text { bytes: Vec<u8>, total_bytes: usize },
    /// Its query has begun.
    Begun(QueryId),
}

/// A plan after a part of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// More parts are to come.
    Part(u16),
    /// It is whole: its text.
    Whole(u16, Vec<u8>),
}

impl Plans {
    /// Drops all.
    pub fn clear(&mut self) {
        self.plans.clear();
    }

    /// Adds a part. Parts come in order.
    pub fn write(&mut self, nsid: u32, fields: &PlanFields, part: &[u8]) -> Result<Written, CommandError> {
        let id = match fields.plan {
            PlanFields::NEW_PLAN => self.add(nsid, fields)?,
            id => id,
        };
        let plan = self.plans.iter_mut().find(|plan| plan.id == id && plan.nsid == nsid).ok_or(NO_PLAN)?;
        let PlanState::Text { bytes, total_bytes } = &mut plan.state else { return Err(NO_PLAN) };
        let is_next = bytes.len() == fields.offset as usize && plan.object == (fields.space, fields.object);
        if !is_next || bytes.len() + part.len() > *total_bytes {
            self.forget(id);
            return Err(OUT_OF_ORDER);
        }
        bytes.extend_from_slice(part);
        if bytes.len() < *total_bytes {
            return Ok(Written::Part(id));
        }
        Ok(Written::Whole(id, std::mem::take(bytes)))
    }

    fn add(&mut self, nsid: u32, fields: &PlanFields) -> Result<u16, CommandError> {
        if self.plans.len() >= PLANS_MAX {
            return Err(TOO_MANY);
        }
        let is_free = |id: &u16| *id != PlanFields::NEW_PLAN && self.plans.iter().all(|plan| plan.id != *id);
        let id = (1..=u16::MAX).map(|step| self.last.wrapping_add(step)).find(is_free).ok_or(TOO_MANY)?;
        self.last = id;
        let state = PlanState::Text { bytes: Vec::new(), total_bytes: fields.total_bytes as usize };
        self.plans.push(Plan { id, nsid, object: (fields.space, fields.object), state });
        Ok(id)
    }

    /// Notes that the query of a plan has begun.
    pub fn begin(&mut self, id: u16, query: QueryId) {
        let plan = self.plans.iter_mut().find(|plan| plan.id == id);
        plan.into_iter().for_each(|plan| plan.state = PlanState::Begun(query));
    }

    /// The query of a plan.
    pub fn query_of(&self, id: u16, nsid: u32) -> Result<QueryId, CommandError> {
        let plan = self.plans.iter().find(|plan| plan.id == id && plan.nsid == nsid);
        match plan.map(|plan| &plan.state) {
            Some(PlanState::Begun(query)) => Ok(*query),
            _ => Err(NO_PLAN),
        }
    }

    /// The plan of a query.
    pub fn plan_of(&self, query: QueryId) -> Option<u16> {
        let is_its = |plan: &&Plan| matches!(plan.state, PlanState::Begun(begun) if begun == query);
        self.plans.iter().find(is_its).map(|plan| plan.id)
    }

    /// Drops the plan of a query that has ended.
    pub fn forget_query(&mut self, query: QueryId) {
        self.plans.retain(|plan| !matches!(plan.state, PlanState::Begun(begun) if begun == query));
    }

    /// Drops a plan.
    pub fn forget(&mut self, id: u16) {
        self.plans.retain(|plan| plan.id != id);
    }
}

const NO_PLAN: CommandError =
    CommandError::new(Status::QUERY_UNKNOWN, "no plan of this identifier is at that step").at_byte(50);
const OUT_OF_ORDER: CommandError =
    CommandError::new(Status::COMMAND_SEQUENCE_ERROR, "a part of a plan that does not follow the last one")
        .at_byte(52);
const TOO_MANY: CommandError =
    CommandError::new(Status::QUERY_RESOURCES_EXCEEDED, "the controller has as many plans as it can keep");

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn fields(plan: u16, offset: u32) -> PlanFields {
        PlanFields { plan, offset, total_bytes: 6, object: 7, ..PlanFields::default() }
    }

    #[test]
    fn parts_make_a_text_in_order() {
        let mut plans = Plans::default();
        let Written::Part(id) = plans.write(1, &fields(0xffff, 0), b"SEL").unwrap() else { panic!("whole") };
        assert_eq!(plans.write(1, &fields(id, 3), b"ECT").unwrap(), Written::Whole(id, b"SELECT".to_vec()));
        plans.begin(id, QueryId(9));
        assert_eq!((plans.query_of(id, 1).unwrap(), plans.plan_of(QueryId(9))), (QueryId(9), Some(id)));
        assert!(plans.query_of(id, 2).is_err());
    }

    #[test]
    fn part_out_of_order_ends_its_plan() {
        for (offset, part) in [(2, &b"x"[..]), (4, b"x"), (3, b"xxxx")] {
            let mut plans = Plans::default();
            let Written::Part(id) = plans.write(1, &fields(0xffff, 0), b"SEL").unwrap() else {
                panic!("whole")
            };
            assert!(plans.write(1, &fields(id, offset), part).is_err());
            assert!(plans.write(1, &fields(id, 3), b"ECT").is_err(), "{offset}");
        }
    }

    #[test]
    fn plans_are_bounded() {
        let mut plans = Plans::default();
        for _ in 0..PLANS_MAX {
            plans.write(1, &fields(0xffff, 0), b"S").unwrap();
        }
        assert_eq!(plans.write(1, &fields(0xffff, 0), b"S").unwrap_err().status, TOO_MANY.status);
    }
}
