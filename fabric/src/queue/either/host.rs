//! The hosts' end of either transport.

use super::Either;
use crate::nvme::Sqe;
use crate::queue::{HostReceived, HostTransport, SubmitError};

impl<A, B> HostTransport for Either<A, B>
where
    A: HostTransport,
    B: HostTransport<Payload = A::Payload>,
{
    type Payload = A::Payload;
    type Chunk<'a> = Either<A::Chunk<'a>, B::Chunk<'a>>;
    type Violation = Either<A::Violation, B::Violation>;

    fn set_in_capsule_data(&mut self, bytes: u32) {
        ask!(self.set_in_capsule_data(bytes));
    }

    fn submit(
        &mut self,
        sqe: Sqe,
        data: Option<A::Payload>,
        read_length: u32,
    ) -> Result<(), SubmitError> {
        ask!(self.submit(sqe, data, read_length))
    }

    fn next<'a>(
        &mut self,
        input: &mut Self::Chunk<'a>,
    ) -> Result<Option<HostReceived<'a>>, Self::Violation> {
        match (self, input) {
            (Self::Left(end), Either::Left(input)) => end.next(input).map_err(Either::Left),
            (Self::Right(end), Either::Right(input)) => end.next(input).map_err(Either::Right),
            _ => {
                debug_assert!(false, "an end receives input of its kind");
                Ok(None)
            }
        }
    }

    fn in_flight(&self) -> usize {
        ask!(self.in_flight())
    }
}
