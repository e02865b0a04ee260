//! Where reactors tell each other that a session has credits again.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// One reactor's board: a bit for each session, by its number modulo 4096.
#[derive(Debug)]
struct Board {
    /// One bit for each word that is not 0.
    summary: AtomicU64,
    words: [AtomicU64; 64],
}

/// The boards of all reactors.
#[derive(Debug)]
pub struct Boards {
    boards: Vec<Board>,
}

impl Boards {
    /// For so many reactors.
    #[must_use]
    pub fn new(reactors: usize) -> Self {
        let board =
            || Board { summary: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; 64] };
        Self { boards: (0..reactors.max(1)).map(|_| board()).collect() }
    }

    /// Tells a reactor of a session.
    pub(super) fn post(&self, reactor: u32, session: u32) {
        let Some(board) = self.boards.get(reactor as usize) else { return };
        let word = session as usize / 64 % 64;
        if let Some(bits) = board.words.get(word) {
            bits.fetch_or(1 << (session % 64), SeqCst);
            board.summary.fetch_or(1 << word, SeqCst);
        }
    }

    /// Whether a reactor was told nothing.
    #[inline]
    pub(super) fn is_empty(&self, reactor: u32) -> bool {
        self.boards.get(reactor as usize).is_none_or(|board| board.summary.load(SeqCst) == 0)
    }

    /// Takes what a reactor was told; sessions are named modulo 4096.
    pub(super) fn take(&self, reactor: u32, mut told: impl FnMut(u32)) {
        let Some(board) = self.boards.get(reactor as usize) else { return };
        if board.summary.load(SeqCst) == 0 {
            return;
        }
        let mut summary = board.summary.swap(0, SeqCst);
        while summary != 0 {
            let word = summary.trailing_zeros();
            summary &= summary - 1;
            let Some(bits) = board.words.get(word as usize) else { continue };
            let mut bits = bits.swap(0, SeqCst);
            while bits != 0 {
                told(word * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}
