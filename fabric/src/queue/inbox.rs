//! The input of an end of a queue: bytes of a stream, messages, or either.

use core::fmt::Debug;

/// Input that is kept until the shell lets it be taken, and the form in which a transport takes
/// input.
///
/// A `Vec` of units is the inbox of a transport on which these units arrive, TCP's of bytes. A
/// transport that is one of several kinds has an inbox of its own whose chunk is one of several, so
/// that queues of all kinds are served by the same code.
pub trait Inbox: Default + Debug {
    /// A piece of what arrives, in the order of arrival. Taking from its front leaves the rest.
    type Chunk<'a>
    where
        Self: 'a;

    /// Keeps a chunk behind the input that is there already.
    fn keep(&mut self, chunk: Self::Chunk<'_>);

    /// Returns the kept bytes.
    fn kept(&self) -> Self::Chunk<'_>;

    /// Returns the number of bytes that are kept, without what messages refer to.
    fn bytes(&self) -> usize;
}

impl<U: Clone + Debug> Inbox for Vec<U> {
    type Chunk<'a>
        = &'a [U]
    where
        U: 'a;

    fn keep(&mut self, chunk: &[U]) {
        self.extend_from_slice(chunk);
    }

    fn kept(&self) -> &[U] {
        self
    }

    fn bytes(&self) -> usize {
        size_of_val(self.as_slice())
    }
}

/// A piece of what arrives, for a transport with that inbox.
pub type Chunk<'a, I> = <I as Inbox>::Chunk<'a>;
