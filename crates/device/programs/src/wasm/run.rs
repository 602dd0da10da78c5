//! A run of a module: interrupted when its fuel is used up, and resumed with more.

use std::{fmt, mem};

use wasmi::{Error, Memory, Store, TrapCode, TypedResumableCall};

use super::Verified;
use super::host::{Direction, Host, Request};
use crate::fault::Fault;
use crate::program::Progress;

/// The function that is run.
pub(super) const FUNCTION: &str = "run";

/// The memory that ranges are copied to and from.
pub(super) const MEMORY: &str = "memory";

/// A call of the function that may be interrupted.
type Call = TypedResumableCall<i64>;

/// A run between two calls of [`advance`](Self::advance).
pub(crate) struct Run {
    state: State,
    /// Fuel that was used beyond the budget: it is taken off the next one.
    overrun: u64,
}

enum State {
    New {
        lengths: Vec<u32>,
        parameters: [u64; 2],
    },
    /// Out of fuel, or behind a request that was served.
    Interrupted(Box<Instance>, Call),
    Over,
}

/// A module with its memory.
struct Instance {
    store: Store<Host>,
    memory: Memory,
}

impl Run {
    /// A run over ranges of these lengths in bytes.
    pub const fn new(lengths: Vec<u32>, parameters: [u64; 2]) -> Self {
        Self { state: State::New { lengths, parameters }, overrun: 0 }
    }

    /// Runs about `steps` steps of fuel, and takes them off.
    ///
    /// # Errors
    /// [`Fault`]: the run is over.
    pub fn advance(
        &mut self,
        program: &Verified,
        ranges: &mut [&mut [u8]],
        steps: &mut u64,
    ) -> Result<Progress, Fault> {
        let charged = self.overrun.min(*steps);
        (self.overrun, *steps) = (self.overrun - charged, *steps - charged);
        if *steps == 0 {
            return Ok(Progress::Pending);
        }
        let (mut instance, call) = self.resume(program, *steps)?;
        match self.serve(&mut instance, call, ranges)? {
            Call::Finished(value) => {
                *steps = instance.fuel()?.min(*steps);
                Ok(Progress::Done(value as u64))
            }
            call => {
                *steps = 0;
                self.state = State::Interrupted(instance, call);
                Ok(Progress::Pending)
            }
        }
    }

    /// Begins the run, or goes on with it.
    fn resume(&mut self, program: &Verified, steps: u64) -> Result<(Box<Instance>, Call), Fault> {
        let (mut instance, call) = match mem::replace(&mut self.state, State::Over) {
            State::New { lengths, parameters } => {
                return Instance::begin(program, lengths, parameters, steps);
            }
            State::Interrupted(instance, call) => (instance, call),
            State::Over => return Err(Fault::Trap),
        };
        let resumed = match call {
            Call::OutOfFuel(call) => {
                // A block of instructions or a bulk operation runs whole.
                let fuel = call.required_fuel().max(steps);
                self.overrun = fuel - steps;
                instance.set_fuel(fuel)?;
                call.resume(&mut instance.store)
            }
            Call::HostTrap(call) => {
                instance.set_fuel(steps)?;
                call.resume(&mut instance.store, &[])
            }
            Call::Finished(value) => Ok(Call::Finished(value)),
        };
        Ok((instance, resumed.map_err(|error| fault_of(&error))?))
    }

    /// Serves requests until the module ends or the fuel does.
    fn serve(
        &mut self,
        instance: &mut Instance,
        mut call: Call,
        ranges: &mut [&mut [u8]],
    ) -> Result<Call, Fault> {
        while let Call::HostTrap(trap) = call {
            let request = *trap.host_error().downcast_ref::<Request>().ok_or(Fault::Trap)?;
            instance.copy(request, ranges)?;
            let (fuel, taken) = (instance.fuel()?, request.fuel());
            if fuel <= taken {
                self.overrun += taken - fuel;
                return Ok(Call::HostTrap(trap));
            }
            instance.set_fuel(fuel - taken)?;
            call = trap.resume(&mut instance.store, &[]).map_err(|error| fault_of(&error))?;
        }
        Ok(call)
    }
}

impl Instance {
    /// Instantiates the module and calls its function.
    fn begin(
        program: &Verified,
        lengths: Vec<u32>,
        [first, second]: [u64; 2],
        fuel: u64,
    ) -> Result<(Box<Self>, Call), Fault> {
        let started = || {
            let (mut store, instance) = program.instantiate(Host::new(lengths))?;
            let function = instance.get_typed_func::<(i64, i64), i64>(&store, FUNCTION)?;
            store.set_fuel(fuel)?;
            let call = function.call_resumable(&mut store, (first as i64, second as i64))?;
            Ok((store, instance, call))
        };
        let (store, instance, call) = started().map_err(|error: Error| fault_of(&error))?;
        let memory = instance.get_memory(&store, MEMORY).ok_or(Fault::Trap)?;
        Ok((Box::new(Self { store, memory }), call))
    }

    fn fuel(&self) -> Result<u64, Fault> {
        self.store.get_fuel().map_err(|error| fault_of(&error))
    }

    fn set_fuel(&mut self, fuel: u64) -> Result<(), Fault> {
        self.store.set_fuel(fuel).map_err(|error| fault_of(&error))
    }

    fn copy(&mut self, request: Request, ranges: &mut [&mut [u8]]) -> Result<(), Fault> {
        let Request { direction, range, position, address, bytes } = request;
        let memory = bytes_at(self.memory.data_mut(&mut self.store), address, bytes)?;
        let fault = Fault::Access { address: position.into(), bytes: bytes.into() };
        let range = bytes_at(ranges.get_mut(range as usize).ok_or(fault)?, position, bytes)?;
        match direction {
            Direction::ToMemory => memory.copy_from_slice(range),
            Direction::ToRange => range.copy_from_slice(memory),
        }
        Ok(())
    }
}

fn bytes_at(memory: &mut [u8], address: u32, bytes: u32) -> Result<&mut [u8], Fault> {
    let behind = memory.get_mut(address as usize..).and_then(|behind| behind.get_mut(..bytes as usize));
    behind.ok_or(Fault::Access { address: address.into(), bytes: bytes.into() })
}

fn fault_of(error: &Error) -> Fault {
    match error.as_trap_code() {
        Some(TrapCode::StackOverflow) => Fault::Depth,
        Some(TrapCode::OutOfFuel) => Fault::Limit,
        _ => Fault::Trap,
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::New { .. } => "new",
            State::Interrupted(..) => "interrupted",
            State::Over => "over",
        };
        f.debug_struct("Run").field("state", &state).field("overrun", &self.overrun).finish()
    }
}
