//! The sizes of what a floor's two sides exchange.

/// The bytes of one request and its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The bytes of a request, with its data.
    pub(crate) request: usize,
    /// The bytes of a response, with its data.
    pub(crate) response: usize,
}
