//! Reading and writing a part of a region, over any transport.

use std::io::{Read, Write};
use std::ops::Range;

use anyhow::{Context as _, ensure};

use super::plan::{Plan, fill, piece, pieces};
use super::written::{FlushedBy, Written};

/// Bytes that a flush reads back, at the most.
const READ_BACK: usize = 64;
/// Bytes that the data node is asked to make survive at once, at the most.
const SYNCED: u64 = 64 << 20;

/// The two kinds of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// A client of a region: I/Os are posted, and end in the order in which they were posted.
pub(crate) trait RegionIo {
    /// Memory of one I/O.
    type Buffer;

    /// Returns the length of the region in bytes.
    fn length(&self) -> u64;

    /// Makes buffers of `length` bytes each.
    fn buffers(&self, count: u16, length: usize) -> anyhow::Result<Vec<Self::Buffer>>;

    /// Returns the bytes of a buffer.
    fn bytes(buffer: &mut Self::Buffer) -> &mut [u8];

    /// Announces the demand for so many I/Os.
    fn want(&mut self, count: u64);

    /// Posts an I/O of all bytes of a buffer. Returns the buffer if no I/O may be posted now.
    fn post(
        &mut self,
        kind: Kind,
        offset: u64,
        buffer: Self::Buffer,
    ) -> anyhow::Result<Option<Self::Buffer>>;

    /// Makes earlier writes survive, as far as the region's kind permits, and waits for it. Returns the flush method.
    fn sync(&mut self, offset: u64, length: u64) -> anyhow::Result<FlushedBy>;

    /// Waits until something has happened, or for some time.
    fn wait(&mut self) -> anyhow::Result<()>;

    /// Returns the next I/O that is over, if there is one: whether it was carried out, and its buffer.
    fn over(&mut self) -> Option<(bool, Self::Buffer)>;
}

/// Reads a part of a region. Returns the number of bytes.
///
/// # Errors
///
/// The part is not all inside the region, the region cannot be used, or the output not be written.
pub(crate) fn read<R: RegionIo>(
    region: &mut R,
    plan: &Plan,
    output: &mut dyn Write,
) -> anyhow::Result<u64> {
    let part = plan.part(region.length())?;
    let length = part.end.saturating_sub(part.start);
    let mut ahead = pieces(part, plan.bs);
    region.want(length.div_ceil(plan.bs.try_into()?));
    let spare = region.buffers(plan.depth, plan.bs)?;
    let next = |region: &R, spare: R::Buffer| {
        let Some((offset, length)) = ahead.next() else { return Ok(None) };
        let buffer = if length == plan.bs { spare } else { of_length(region, length)? };
        Ok(Some((offset, buffer)))
    };
    let over = |bytes: &[u8]| output.write_all(bytes).context("writing to the output");
    carry_out(region, Kind::Read, spare, next, over)?;
    output.flush().context("writing to the output")?;
    Ok(length)
}

/// Writes an input to a part of a region, and flushes it.
///
/// # Errors
///
/// The part is not all inside the region, the input is longer, the region cannot be used, or the last
/// bytes are not there afterwards.
pub(crate) fn write<R: RegionIo>(
    region: &mut R,
    plan: &Plan,
    input: &mut dyn Read,
) -> anyhow::Result<Written> {
    let part = plan.part(region.length())?;
    let (mut at, mut ended, mut last) = (part.start, false, Vec::new());
    let spare = region.buffers(plan.depth, plan.bs)?;
    let next = |region: &R, mut spare: R::Buffer| {
        let room = piece(at..part.end, plan.bs);
        if ended || room == 0 {
            return Ok(None);
        }
        let place = R::bytes(&mut spare).get_mut(..room).unwrap_or_default();
        let filled = fill(input, place).context("reading the input")?;
        ended = filled < room;
        let bytes = place.get(..filled).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(None);
        }
        last.clear();
        last.extend(bytes.iter().skip(filled.saturating_sub(READ_BACK)));
        let offset = at;
        at = at.saturating_add(filled.try_into()?);
        if filled == plan.bs {
            return Ok(Some((offset, spare)));
        }
        let mut buffer = of_length(region, filled)?;
        R::bytes(&mut buffer).copy_from_slice(bytes);
        Ok(Some((offset, buffer)))
    };
    let mut written = 0_u64;
    let over = |bytes: &[u8]| {
        written = written.saturating_add(bytes.len().try_into()?);
        Ok(())
    };
    let outcome = carry_out(region, Kind::Write, spare, next, over)
        .and_then(|()| flush(region, part.start..at, &last));
    let flushed_by =
        outcome.with_context(|| format!("{written} bytes were written, and not flushed"))?;
    ensure!(
        at < part.end || plan.length.is_some() || fill(input, &mut [0])? == 0,
        "the input is longer than the rest of the region: {written} bytes were written and flushed"
    );
    Ok(Written { bytes: written, flushed_by })
}

/// Reads the last bytes of a written part back: the READ follows all WRITEs on the same queue pair, and a device
/// answers it only when their bytes have left the device. Then makes the part survive. Returns the flush method; `None`
/// if there are no bytes.
fn flush<R: RegionIo>(
    region: &mut R,
    part: Range<u64>,
    last: &[u8],
) -> anyhow::Result<Option<FlushedBy>> {
    if last.is_empty() {
        return Ok(None);
    }
    let mut place = Some(part.end.saturating_sub(last.len().try_into()?));
    let next = |_: &R, buffer| Ok(place.take().map(|offset| (offset, buffer)));
    let same = |bytes: &[u8]| {
        ensure!(
            bytes == last,
            "the last bytes are others than were written: does another client write there?"
        );
        Ok(())
    };
    let spare = vec![of_length(region, last.len())?];
    carry_out(region, Kind::Read, spare, next, same)?;
    let (mut at, mut by) = (part.start, None);
    while at < part.end {
        let length = (part.end - at).min(SYNCED);
        by = Some(region.sync(at, length)?);
        at += length;
    }
    Ok(by)
}

/// Makes one buffer, for an I/O shorter than the others.
fn of_length<R: RegionIo>(region: &R, length: usize) -> anyhow::Result<R::Buffer> {
    region.buffers(1, length)?.pop().context("there is no buffer")
}

/// Carries out I/Os until there are no more. `next` gets a spare buffer and returns the place of the next
/// I/O with its buffer, which may be another; `over` gets the bytes of each that is over, in order.
fn carry_out<R: RegionIo>(
    region: &mut R,
    kind: Kind,
    mut spare: Vec<R::Buffer>,
    mut next: impl FnMut(&R, R::Buffer) -> anyhow::Result<Option<(u64, R::Buffer)>>,
    mut over: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut under_way, mut all) = (0_u32, false);
    // The next I/O, where it could not go yet.
    let mut held: Option<(u64, R::Buffer)> = None;
    loop {
        while !all {
            let ready = match held.take() {
                Some(held) => Some(held),
                None => match spare.pop() {
                    Some(buffer) => next(region, buffer)?,
                    None => break,
                },
            };
            let Some((offset, buffer)) = ready else {
                all = true;
                break;
            };
            if let Some(buffer) = region.post(kind, offset, buffer)? {
                held = Some((offset, buffer));
                break;
            }
            under_way = under_way.saturating_add(1);
        }
        if all && under_way == 0 {
            return Ok(());
        }
        let waited = region.wait();
        while let Some((carried_out, mut buffer)) = region.over() {
            under_way = under_way.saturating_sub(1);
            if carried_out {
                over(R::bytes(&mut buffer))?;
            }
            spare.push(buffer);
        }
        waited?;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use anyhow::bail;
    use proptest::prelude::*;

    use super::*;

    /// A region in memory. I/Os go and end now and then, as its random numbers say.
    #[derive(Default)]
    struct InMemory {
        data: Vec<u8>,
        under_way: VecDeque<(Kind, usize, Vec<u8>)>,
        over: VecDeque<(bool, Vec<u8>)>,
        most: usize,
        random: fastrand::Rng,
        /// I/Os after which the region is lost.
        lost_after: Option<usize>,
        ended: usize,
        wanted: u64,
        kinds: Vec<Kind>,
        /// The byte that another client writes to the region's last byte before each READ.
        meddler: Option<u8>,
        /// The bytes that were made to survive.
        synced: Vec<Range<u64>>,
        /// Whether the medium has failed.
        broken: bool,
    }

    impl InMemory {
        fn new(length: usize, seed: u64) -> Self {
            let (data, random) = (vec![0; length], fastrand::Rng::with_seed(seed));
            Self { data, random, ..Self::default() }
        }
    }

    impl RegionIo for InMemory {
        type Buffer = Vec<u8>;

        fn length(&self) -> u64 {
            self.data.len() as u64
        }

        fn buffers(&self, count: u16, length: usize) -> anyhow::Result<Vec<Vec<u8>>> {
            Ok(vec![vec![0xee; length]; count.into()])
        }

        fn bytes(buffer: &mut Vec<u8>) -> &mut [u8] {
            buffer
        }

        fn want(&mut self, count: u64) {
            self.wanted += count;
        }

        fn post(
            &mut self,
            kind: Kind,
            offset: u64,
            buffer: Vec<u8>,
        ) -> anyhow::Result<Option<Vec<u8>>> {
            if self.random.bool() {
                return Ok(Some(buffer));
            }
            self.kinds.push(kind);
            self.under_way.push_back((kind, usize::try_from(offset).unwrap(), buffer));
            self.most = self.most.max(self.under_way.len());
            Ok(None)
        }

        fn sync(&mut self, offset: u64, length: u64) -> anyhow::Result<FlushedBy> {
            assert!(self.under_way.is_empty() && self.over.is_empty(), "it is the last");
            anyhow::ensure!(!self.broken, "the medium has failed");
            self.synced.push(offset..offset + length);
            Ok(FlushedBy::DataNode)
        }

        fn wait(&mut self) -> anyhow::Result<()> {
            while self.random.bool() {
                let Some((kind, at, mut buffer)) = self.under_way.pop_front() else { break };
                if self.lost_after.is_some_and(|after| self.ended >= after) {
                    self.over.push_back((false, buffer));
                    bail!("the connection has ended");
                }
                self.ended += 1;
                if let (Some(byte), Kind::Read, Some(last)) =
                    (self.meddler, kind, self.data.last_mut())
                {
                    *last = byte;
                }
                let place = &mut self.data[at..at + buffer.len()];
                match kind {
                    Kind::Read => buffer.copy_from_slice(place),
                    Kind::Write => place.copy_from_slice(&buffer),
                }
                self.over.push_back((true, buffer));
            }
            Ok(())
        }

        fn over(&mut self) -> Option<(bool, Vec<u8>)> {
            self.over.pop_front()
        }
    }

    fn plan(offset: u64, length: Option<u64>, bs: usize, depth: u16) -> Plan {
        Plan { offset, length, bs, depth, best_effort: depth }
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect()
    }

    proptest! {
        #[test]
        fn what_is_written_is_there_and_is_read(
            offset in 0_usize..300, length in 0_usize..700, bs in 1_usize..200, depth in 1_u16..6,
            seed: u64,
        ) {
            let mut region = InMemory::new(1000, seed);
            let input = bytes(length);
            let plan = plan(offset as u64, None, bs, depth);
            let written = write(&mut region, &plan, &mut input.as_slice()).unwrap();
            let flushed_by = (length > 0).then_some(FlushedBy::DataNode);
            prop_assert_eq!(written, Written { bytes: length as u64, flushed_by });
            prop_assert!(region.data[offset..offset + length] == input);
            prop_assert!(region.data[..offset].iter().all(|byte| *byte == 0));
            prop_assert!(region.data[offset + length..].iter().all(|byte| *byte == 0));
            prop_assert!(region.most <= depth.into());
            let (start, end) = (offset as u64, (offset + length) as u64);
            let synced: Vec<_> = Some(start..end).filter(|part| !part.is_empty()).into_iter().collect();
            prop_assert_eq!(&region.synced, &synced);
            // The flush is the last I/O.
            let ios = length.div_ceil(bs);
            let mut kinds = vec![Kind::Write; ios];
            kinds.extend((length > 0).then_some(Kind::Read));
            prop_assert_eq!(&region.kinds, &kinds);

            let mut output = Vec::new();
            let part = Plan { length: Some(length as u64), ..plan };
            let read = read(&mut region, &part, &mut output).unwrap();
            prop_assert_eq!(read, length as u64);
            prop_assert!(output == input);
            prop_assert_eq!(region.wanted, ios as u64, "a reader says at once what it wants");
        }

        #[test]
        fn a_region_that_is_lost_is_an_error_and_says_how_much_was_written(
            after in 0_usize..5, depth in 1_u16..4, seed: u64,
        ) {
            let mut region = InMemory::new(1000, seed);
            region.lost_after = Some(after);
            let outcome = write(&mut region, &plan(0, None, 100, depth), &mut bytes(500).as_slice());
            let text = format!("{:#}", outcome.unwrap_err());
            let said = format!("{} bytes were written, and not flushed: the connection", after * 100);
            prop_assert!(text.starts_with(&said), "{}", text);
            let outcome = read(&mut region, &plan(0, None, 100, depth), &mut Vec::new());
            prop_assert!(outcome.is_err());
        }
    }

    /// Writes as many bytes to a region, in pieces of 64. Returns their number.
    fn written(region: &mut InMemory, length: usize) -> Result<u64, String> {
        let written = write(region, &plan(0, None, 64, 2), &mut bytes(length).as_slice());
        written.map(|written| written.bytes).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn an_input_that_does_not_fit_is_an_error_and_one_that_was_cut_on_purpose_is_not() {
        for length in [100, 130] {
            let mut region = InMemory::new(100, 7);
            assert_eq!(written(&mut region, length).is_ok(), length == 100, "{length}");
            assert_eq!(region.data, bytes(100));
        }
        let mut region = InMemory::new(100, 7);
        let part = plan(10, Some(20), 64, 2);
        assert_eq!(write(&mut region, &part, &mut bytes(130).as_slice()).unwrap().bytes, 20);
        assert_eq!(region.data[10..30], bytes(20));
        assert_eq!(region.data[30..], [0; 70]);
    }

    #[test]
    fn failed_flush_and_other_bytes_are_errors() {
        let mut region = InMemory { broken: true, ..InMemory::new(100, 7) };
        let text = written(&mut region, 100).unwrap_err();
        assert!(text.contains("not flushed: the medium"), "{text}");
        let mut region = InMemory { meddler: Some(99), ..InMemory::new(100, 7) };
        assert_eq!(written(&mut region, 99), Ok(99), "the byte behind is another's");
        assert_eq!(written(&mut region, 100), Ok(100), "the same byte was written");
        region.meddler = Some(1);
        let text = written(&mut region, 100).unwrap_err();
        assert!(text.contains("100 bytes were written, and not flushed: the last bytes"), "{text}");
    }
}
