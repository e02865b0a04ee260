//! The data of commands at the target.

use sluice_core::heap::HeapBuffer;
use sluice_core::{DataPlace, TxData};

/// Data that the target returns.
pub(crate) type Returned = TxData<HeapBuffer>;
/// A command's buffer that is received into.
pub(crate) type Place = DataPlace<HeapBuffer>;
