use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use fastrand::Rng;
use proptest::prelude::*;

use super::geometry::{PAGE, Shape};
use super::*;
use crate::medium::Medium;
use crate::medium::model::Model;

/// Arenas of 28 blocks of 512 bytes with 3 lanes.
const SMALL: Shape = Shape { largest: 32 << 10, smallest: 32 << 10, lanes: 3 };
const REGION: u64 = 64 << 10;
const BLOCKS: u64 = 56;

fn formatted(bytes: u64, shape: Shape) -> Arc<Model> {
    let model = Model::new(bytes);
    open::format(&model, BlockSize::B512, [7; 16], shape).unwrap();
    model.settle();
    Arc::new(model)
}

/// Makes a table, and opens it.
fn table(cuts: Cuts) -> (Arc<Model>, Btt<Arc<Model>>) {
    let model = formatted(REGION, SMALL);
    let (btt, _) = open_small(Arc::clone(&model), cuts).unwrap();
    (model, btt)
}

/// Opens a table on a medium on which flushes and fences do nothing.
fn open_unordered(model: &Arc<Model>) -> (Btt<Arc<Model>>, OpenReport) {
    model.set_unordered(true);
    open_small(Arc::clone(model), Cuts::InAnyOrder).unwrap()
}

fn open_small<M: Medium>(medium: M, cuts: Cuts) -> Result<(Btt<M>, OpenReport), OpenError> {
    Btt::open_shaped(medium, cuts, SMALL)
}

/// Returns the bytes of a block of which each word is `stamp`.
fn stamped(stamp: u64) -> [u8; 512] {
    let mut bytes = [0; 512];
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&stamp.to_le_bytes());
    }
    bytes
}

/// Reads a block, all words of which must be equal, and returns the word.
fn stamp_of<M: Medium>(btt: &Btt<M>, block: u64) -> u64 {
    let mut bytes = [1; 512];
    btt.read(block, &mut bytes).unwrap();
    let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes == stamped(word), "block {block} is torn");
    word
}

fn write_on<M: Medium>(btt: &Btt<M>, lane: usize, block: u64, stamp: u64) {
    let (arena, logical) = btt.find(block).unwrap();
    arena.write_on(lane, &btt.medium, &btt.readers, logical, &stamped(stamp));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write {
        lane: usize,
        block: u64,
        /// Whether another thread does it, whose fences are of no use to this one.
        elsewhere: bool,
    },
    Zero {
        block: u64,
        count: u64,
    },
}

impl Step {
    /// Carries the step out, with a unique stamp. Returns the blocks and their new content.
    fn run<M: Medium>(self, btt: &Btt<M>, stamp: u64) {
        match self {
            Self::Write { lane, block, elsewhere: false } => write_on(btt, lane, block, stamp),
            Self::Write { lane, block, elsewhere: true } => std::thread::scope(|scope| {
                scope.spawn(|| write_on(btt, lane, block, stamp));
            }),
            Self::Zero { block, count } => btt.zero(block, count),
        }
    }

    /// Returns the possible content of a block while the step runs, and its content once it is
    /// over.
    fn makes(self, of: u64, stamp: u64) -> Option<u64> {
        match self {
            Self::Write { block, .. } => (block == of).then_some(stamp),
            Self::Zero { block, count } => (block..block + count).contains(&of).then_some(0),
        }
    }
}

/// Steps that meet on few blocks, so that blocks are written often.
fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let block = prop_oneof![3 => 0..4_u64, 1 => 0..BLOCKS, 1 => 26..30_u64];
    let step = prop_oneof![
        5 => (0..3_usize, block.clone(), any::<bool>())
            .prop_map(|(lane, block, elsewhere)| Step::Write { lane, block, elsewhere }),
        1 => (block, 1..40_u64).prop_map(|(block, count)| Step::Zero { block, count }),
    ];
    prop::collection::vec(step, 1..most)
}

/// Which of the values of each word survive.
#[derive(Clone, Copy, Debug)]
enum Luck {
    Nothing,
    Everything,
    /// Of each word any value.
    Words,
    /// Of most words nothing, or of most everything.
    Few(bool),
}

fn luck() -> impl Strategy<Value = Luck> {
    prop_oneof![
        1 => Just(Luck::Nothing),
        1 => Just(Luck::Everything),
        2 => Just(Luck::Words),
        2 => any::<bool>().prop_map(Luck::Few),
    ]
}

fn survivor(model: &Model, luck: Luck, rng: &mut Rng) -> Arc<Model> {
    Arc::new(model.survivor(|_, values| match luck {
        Luck::Nothing => 0,
        Luck::Everything => values,
        Luck::Words => rng.usize(..=values),
        Luck::Few(all) if rng.u8(..8) > 0 => values * usize::from(all),
        Luck::Few(_) => rng.usize(..=values),
    }))
}

/// A life of a table: it works, its power fails after some number of stores, and it is opened; its
/// power may fail while it is opened, too.
#[derive(Clone, Debug)]
struct Life {
    steps: Vec<Step>,
    cut: u64,
    cut_while_opening: Option<u64>,
    luck: Luck,
}

fn life() -> impl Strategy<Value = Life> {
    let opening = prop::option::of(0..30_u64);
    (steps(24), 0..1500_u64, opening, luck()).prop_map(|(steps, cut, cut_while_opening, luck)| {
        Life { steps, cut, cut_while_opening, luck }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Acknowledged writes survive. The block under write is whole, new or old. No internal block
    /// is in use twice, which opening checks.
    #[test]
    fn cut_leaves_each_block_old_or_new(
        lives in prop::collection::vec(life(), 1..4),
        seed: u64,
    ) {
        let mut rng = Rng::with_seed(seed);
        let mut model = formatted(REGION, SMALL);
        let mut now = vec![0; usize::try_from(BLOCKS).unwrap()];
        let mut stamp = 0;
        for life in lives {
            if let Some(cut) = life.cut_while_opening {
                model.cut_after(cut);
                open_small(Arc::clone(&model), Cuts::InOrder).unwrap();
                model = survivor(&model, life.luck, &mut rng);
            }
            let (btt, opened) = open_small(Arc::clone(&model), Cuts::InOrder).unwrap();
            prop_assert_eq!((opened.restored, opened.parted), (0, 0));
            for (block, was) in (0..).zip(&now) {
                prop_assert_eq!(stamp_of(&btt, block), *was, "block {}", block);
            }
            model.cut_after(life.cut);
            let mut cut_off = None;
            for step in life.steps {
                stamp += 1;
                step.run(&btt, stamp);
                if model.is_cut() {
                    cut_off = Some(step);
                    break;
                }
                for (block, was) in (0..).zip(&mut now) {
                    *was = step.makes(block, stamp).unwrap_or(*was);
                    prop_assert_eq!(stamp_of(&btt, block), *was, "block {} before a cut", block);
                }
            }
            model = survivor(&model, life.luck, &mut rng);
            let (btt, _) = open_small(Arc::clone(&model), Cuts::InOrder).unwrap();
            for (block, was) in (0..).zip(&mut now) {
                let is = stamp_of(&btt, block);
                let may = cut_off.and_then(|step| step.makes(block, stamp));
                prop_assert!(is == *was || Some(is) == may, "block {block} is {is}, was {was}");
                *was = is;
            }
        }
    }

    /// If nothing keeps the order, as in the page cache of a file, blocks that were not written
    /// since the file was synchronized are unchanged, and the table works on.
    #[test]
    fn unordered_cut_keeps_synchronized_blocks(
        before in steps(60),
        after in steps(24),
        later in steps(24),
        luck in luck(),
        seed: u64,
    ) {
        let mut rng = Rng::with_seed(seed);
        let model = formatted(REGION, SMALL);
        let mut now = vec![0; usize::try_from(BLOCKS).unwrap()];
        let mut stamp = 0;
        let (btt, _) = open_unordered(&model);
        for step in before {
            stamp += 1;
            step.run(&btt, stamp);
            for (block, was) in (0..).zip(&mut now) {
                *was = step.makes(block, stamp).unwrap_or(*was);
            }
        }
        model.settle();
        let mut touched = vec![false; now.len()];
        for step in after {
            stamp += 1;
            step.run(&btt, stamp);
            for (block, touched) in (0..).zip(&mut touched) {
                *touched |= step.makes(block, stamp).is_some();
            }
        }
        let killed = survivor(&model, Luck::Everything, &mut rng);
        let (btt, opened) = open_unordered(&killed);
        prop_assert_eq!(opened, OpenReport::default(), "a process that ends is no power cut");
        drop(btt);
        let model = survivor(&model, luck, &mut rng);
        let (btt, _) = open_unordered(&model);
        for (block, (was, touched)) in (0..).zip(now.iter().zip(&touched)) {
            if !touched {
                prop_assert_eq!(stamp_of(&btt, block), *was, "block {}", block);
            }
        }
        drop(btt);
        model.set_unordered(false);
        let (btt, opened) = open_small(Arc::clone(&model), Cuts::InOrder).unwrap();
        prop_assert_eq!(opened, OpenReport::default(), "it was repaired once");
        let read = |block: u64| {
            let mut bytes = [0; 512];
            btt.read(block, &mut bytes).unwrap();
            bytes
        };
        let mut now: Vec<_> = (0..BLOCKS).map(read).collect();
        for step in later {
            stamp += 1;
            step.run(&btt, stamp);
            for (block, is) in (0..).zip(&mut now) {
                *is = step.makes(block, stamp).map_or(*is, stamped);
                prop_assert!(read(block) == *is, "block {}", block);
            }
        }
    }
}

/// Every place where a process can end without any other event: the page cache of a file has all
/// stores.
#[test]
fn process_end_harms_nothing_with_unordered_cuts() {
    let mut settled = 0;
    for cut in 0.. {
        let (model, btt) = table(Cuts::InAnyOrder);
        model.cut_after(cut);
        write_on(&btt, 0, 5, 1);
        let done = u64::from(!model.is_cut());
        let after = survivor(&model, Luck::Everything, &mut Rng::with_seed(0));
        let (btt, opened) = open_small(after, Cuts::InAnyOrder).unwrap();
        let is = stamp_of(&btt, 5);
        assert!(is == done || is == 1, "{is} after {cut} stores");
        assert_eq!(opened.parted, 0, "after {cut} stores");
        settled += opened.settled;
        if done == 1 {
            break;
        }
    }
    assert!(settled > 0, "some cuts are between the flog and the map");
}

/// Every place where the power can fail in three writes of one block, with the worst of luck.
#[test]
fn cut_at_any_place_does_no_harm() {
    let lucks = [Luck::Nothing, Luck::Everything, Luck::Words, Luck::Few(true), Luck::Few(false)];
    let mut completed = 0;
    for cut in 0.. {
        let (model, btt) = table(Cuts::InOrder);
        model.cut_after(cut);
        let mut done = 0;
        for stamp in 1..=3 {
            write_on(&btt, 0, 5, stamp);
            done += u64::from(!model.is_cut());
        }
        for (seed, luck) in (0..).zip(lucks.into_iter().cycle().take(20)) {
            let after = survivor(&model, luck, &mut Rng::with_seed(seed));
            let (btt, opened) = open_small(after, Cuts::InOrder).unwrap();
            let is = stamp_of(&btt, 5);
            assert!(is == done || is == done + 1, "{is} after {done} writes and {cut} stores");
            completed += opened.settled;
        }
        if done == 3 {
            break;
        }
    }
    assert!(completed > 0, "some cuts are between the flog and the map");
}

/// Threads of their own lanes and lanes that they share; each has its own blocks.
#[test]
fn cut_under_threads_keeps_acknowledged_writes() {
    const THREADS: u64 = 4;
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let (model, btt) = table(Cuts::InOrder);
        model.cut_after(rng.u64(..6000));
        let work = |thread: u64| {
            let mut rng = Rng::with_seed(seed << 8 | thread);
            let mut kept = vec![0; usize::try_from(BLOCKS).unwrap()];
            for round in 1.. {
                let block = rng.u64(..BLOCKS / THREADS) * THREADS + thread;
                let stamp = round << 8 | thread;
                btt.write(block, &stamped(stamp));
                if model.is_cut() {
                    return (kept, block, stamp);
                }
                kept[usize::try_from(block).unwrap()] = stamp;
            }
            unreachable!()
        };
        let work = &work;
        let ends: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let luck = [Luck::Nothing, Luck::Words, Luck::Few(true)][rng.usize(..3)];
        let after = survivor(&model, luck, &mut rng);
        let (btt, _) = open_small(after, Cuts::InOrder).unwrap();
        for block in 0..BLOCKS {
            let (kept, cut_off, stamp) = &ends[usize::try_from(block % THREADS).unwrap()];
            let (is, was) = (stamp_of(&btt, block), kept[usize::try_from(block).unwrap()]);
            let may = *cut_off == block && is == *stamp;
            assert!(is == was || may, "seed {seed}: block {block} is {is}, was {was}");
        }
    }
}

/// Memory that several threads use at once, which loses nothing.
#[derive(Debug)]
struct Words {
    words: Box<[AtomicU64]>,
    /// The share of the fences, in 256ths, at which other threads may run.
    yields: u8,
}

impl Words {
    /// Makes a table with some number of lanes.
    fn table(lanes: u32, yields: u8) -> (Btt<Self>, Shape) {
        let shape = Shape { lanes, ..SMALL };
        let words = (0..REGION / 8).map(|_| AtomicU64::new(0)).collect();
        let words = Self { words, yields };
        open::format(&words, BlockSize::B512, [7; 16], shape).unwrap();
        (Btt::open_shaped(words, Cuts::InOrder, shape).unwrap().0, shape)
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[usize::try_from(at / 8).unwrap()]
    }
}

impl Medium for Words {
    fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn load(&self, at: u64) -> u64 {
        self.word(at).load(SeqCst)
    }

    fn store(&self, at: u64, word: u64) {
        self.word(at).store(word, Relaxed);
    }

    fn exchange(&self, at: u64, old: u64, new: u64) -> Result<(), u64> {
        self.word(at).compare_exchange(old, new, SeqCst, SeqCst).map(drop)
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        for (offset, word) in (0..).step_by(8).zip(into.chunks_mut(8)) {
            word.copy_from_slice(&self.word(at + offset).load(Relaxed).to_le_bytes());
        }
    }

    fn write(&self, at: u64, from: &[u8]) {
        for (offset, word) in (0..).step_by(8).zip(from.chunks(8)) {
            self.store(at + offset, u64::from_le_bytes(word.try_into().unwrap()));
        }
    }

    fn flush(&self, _: u64, _: u64) {}

    /// Yields to other threads between the steps of some writes.
    fn fence(&self) {
        if fastrand::u8(..) < self.yields {
            std::thread::yield_now();
        }
    }
}

/// Few lanes and few blocks, so that a block that comes free is written again at once.
#[test]
fn readers_see_each_block_as_one_write_left_it() {
    const WRITES: u64 = 4_000;
    for lanes in [1, 2] {
        let (btt, shape) = Words::table(lanes, 8);
        let over = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                let (btt, over) = (&btt, &over);
                scope.spawn(move || {
                    for round in 1..=WRITES {
                        // A block that both write, and one of its own, whose stamps never go back.
                        let block = if round % 2 == 0 { 1 + thread } else { 0 };
                        btt.write(block, &stamped(round << 8 | thread));
                        if round % 64 == 0 {
                            btt.zero(0, 1);
                        }
                    }
                    over.fetch_add(1, SeqCst);
                });
                scope.spawn(move || {
                    let mut last = [0; 3];
                    while over.load(SeqCst) < 2 {
                        for block in 0..3_u64 {
                            let last = &mut last[usize::try_from(block).unwrap()];
                            let is = stamp_of(btt, block);
                            assert!(block == 0 || *last <= is, "block {block}: {is} after {last}");
                            assert!(block == 0 || is == 0 || is & 0xff == block - 1);
                            *last = is;
                        }
                    }
                });
            }
        });
        let (_, opened) = Btt::open_shaped(btt.medium, Cuts::InOrder, shape).unwrap();
        assert_eq!(opened, OpenReport::default(), "no block was lost or is in use twice");
    }
}

/// Writers of one block on lanes of their own, which meet at every step.
#[test]
fn writers_of_one_block_lose_no_internal_block() {
    let (btt, shape) = Words::table(3, 128);
    std::thread::scope(|scope| {
        for lane in 0..3 {
            let btt = &btt;
            scope.spawn(move || (0..3000).for_each(|round| write_on(btt, lane, round % 2, round)));
        }
    });
    let (_, opened) = Btt::open_shaped(btt.medium, Cuts::InOrder, shape).unwrap();
    assert_eq!(opened, OpenReport::default(), "no block was lost or is in use twice");
}

fn damage(model: &Model, at: u64) {
    model.store(at, model.load(at) ^ 1 << 40);
    model.settle();
}

/// Damages bytes of a table and returns what opening it gives.
fn opened_after(damaged: &[u64]) -> Result<OpenReport, OpenError> {
    let (model, btt) = table(Cuts::InOrder);
    write_on(&btt, 0, 5, 9);
    damaged.iter().for_each(|at| damage(&model, *at));
    let words = || (0..REGION).step_by(8).map(|at| model.load(at)).collect::<Vec<u64>>();
    let before = words();
    let result = open_small(Arc::clone(&model), Cuts::InOrder);
    if let Ok((btt, opened)) = &result {
        assert_eq!(stamp_of(btt, 5), 9);
        let (_, again) = open_small(Arc::clone(&model), Cuts::InOrder).unwrap();
        assert_eq!((opened.restored > 0, again.restored), (true, 0), "restored for good");
    } else {
        assert!(before == words(), "what is refused is left as it is");
    }
    result.map(|(_, opened)| opened)
}

#[test]
fn single_damaged_info_block_is_restored() {
    let arena = SMALL.largest;
    let (first, copy) = (64, arena - PAGE + 64);
    for (damaged, restored) in [
        (vec![first], 1),
        (vec![copy], 1),
        // The signature.
        (vec![0], 1),
        (vec![first, arena + first], 2),
        (vec![copy, arena + copy], 2),
    ] {
        assert_eq!(opened_after(&damaged).unwrap().restored, restored, "{damaged:?}");
    }
    let error = opened_after(&[first, copy]).unwrap_err().to_string();
    assert!(error.contains("arena 0") && error.contains("its checksum is wrong"), "{error}");
    let error = opened_after(&[arena + first, arena + copy]).unwrap_err().to_string();
    assert!(error.contains("(arena 1, at byte 32768)"), "{error}");
}

#[test]
fn damaged_flog_or_map_is_located_in_error() {
    let geometry = geometry::divide(REGION, BlockSize::B512, SMALL).unwrap()[0];
    // The sequence number of lane 2: 1 becomes 1 + 2^8.
    let error = opened_after(&[geometry.flog + 2 * 64 + 8]).unwrap_err().to_string();
    assert!(error.contains("lane 2") && error.contains("sequence numbers"), "{error}");
    // Block 5's entry leads to a block that does not exist.
    let error = opened_after(&[geometry.map + 16]).unwrap_err().to_string();
    assert!(error.contains("from block 5 to none"), "{error}");
    let (model, btt) = table(Cuts::InOrder);
    write_on(&btt, 0, 0, 9);
    write_on(&btt, 0, 1, 9);
    // Blocks 0 and 1 share a word of the map: both lead to the same internal block.
    let word = model.load(geometry.map);
    model.store(geometry.map, word & 0xffff_ffff | word << 32);
    let error = open_small(Arc::clone(&model), Cuts::InOrder).unwrap_err().to_string();
    assert!(error.contains("in use twice"), "{error}");
}

#[test]
fn unfinished_table_differs_from_foreign_content() {
    let model = Arc::new(Model::new(REGION));
    assert_eq!(open_small(Arc::clone(&model), Cuts::InOrder).unwrap_err(), OpenError::NoTable);
    model.store(0, 0x55aa);
    assert_eq!(open_small(Arc::clone(&model), Cuts::InOrder).unwrap_err(), OpenError::NoTable);
    let tiny = Model::new(100);
    assert_eq!(open_small(tiny, Cuts::InOrder).unwrap_err(), OpenError::NoTable);
    // A cut at every tenth step of making the layout.
    for cut in (0..).step_by(10) {
        let model = Model::new(REGION);
        model.cut_after(cut);
        open::format(&model, BlockSize::B512, [7; 16], SMALL).unwrap();
        let over = !model.is_cut();
        let after = survivor(&model, Luck::Words, &mut Rng::with_seed(cut));
        match open_small(Arc::clone(&after), Cuts::InOrder) {
            Ok((btt, _)) => assert_eq!(stamp_of(&btt, 3), 0),
            Err(OpenError::NoTable) => {
                assert!((0..REGION).step_by(8).all(|at| after.load(at) == 0), "still blank");
            }
            Err(OpenError::Unfinished) => {
                open::format(&after, BlockSize::B512, [7; 16], SMALL).unwrap();
                open_small(after, Cuts::InOrder).unwrap();
            }
            Err(error) => panic!("{error} after {cut} steps"),
        }
        if over {
            break;
        }
    }
}

#[test]
fn new_table_reads_as_zeroes() {
    let model = Arc::new(Model::new(REGION));
    model.write(0, &vec![0xa5; usize::try_from(REGION).unwrap()]);
    open::format(&model, BlockSize::B512, [7; 16], SMALL).unwrap();
    let (btt, _) = open_small(model, Cuts::InOrder).unwrap();
    assert!((0..BLOCKS).all(|block| stamp_of(&btt, block) == 0));
}

#[test]
fn an_unreadable_block_fails_until_it_is_written() {
    let (model, btt) = table(Cuts::InOrder);
    write_on(&btt, 0, 4, 9);
    let geometry = geometry::divide(REGION, BlockSize::B512, SMALL).unwrap()[0];
    let at = geometry.map + 16;
    model.store(at, model.load(at) & !(1 << 31));
    assert_eq!(btt.read(4, &mut [0; 512]), Err(Unreadable));
    write_on(&btt, 1, 4, 10);
    assert_eq!(stamp_of(&btt, 4), 10);
}

#[test]
fn real_region_has_computed_block_count() {
    let bytes = region_bytes(5000, BlockSize::B4096);
    let model = Arc::new(Model::new(bytes));
    Btt::format(&model, BlockSize::B4096, [1; 16]).unwrap();
    let (btt, opened) = Btt::open(Arc::clone(&model), Cuts::InOrder).unwrap();
    assert_eq!(opened, OpenReport::default());
    assert!((5000..5010).contains(&btt.blocks()), "{}", btt.blocks());
    let last = btt.blocks() - 1;
    btt.write(last, &[3; 4096]);
    btt.write(last + 1, &[3; 4096]);
    let mut seen = [1; 4096];
    btt.read(last, &mut seen).unwrap();
    assert_eq!(seen, [3; 4096]);
    btt.read(last + 1, &mut [1; 4096]).unwrap();
    btt.zero(last - 1, 100);
    btt.read(last, &mut seen).unwrap();
    assert_eq!(seen, [0; 4096]);
    assert!(Btt::format(&Model::new(bytes / 2), BlockSize::B4096, [1; 16]).is_err());
}
