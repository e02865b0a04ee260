//! The ClientHello, by which a host shows that it has a PSK before the handshake goes on: each
//! identity in it comes with a binder (RFC 8446, section 4.2.11.2).

use super::derive::{Layout, TlsPsk, expand_label, extract};

/// The type of a ClientHello among handshake messages.
const CLIENT_HELLO: u8 = 1;
/// The longest ClientHello in bytes that is looked at.
const LENGTH_MAX: usize = 1 << 14;

/// A ClientHello whose last part is the list of binders.
#[derive(Clone, Debug)]
pub struct ClientHello {
    /// The message with its header, up to the list of binders.
    truncated: Vec<u8>,
    binders: Vec<Vec<u8>>,
}

impl ClientHello {
    /// Reads a ClientHello without its header of four bytes. `None` where it does not end with a list
    /// of binders, or is longer than 16 KiB.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= LENGTH_MAX)?;
        let [_, high, middle, low] = length.to_be_bytes();
        let mut whole = vec![CLIENT_HELLO, high, middle, low];
        let start = binders_start(body)?;
        let (before, list) = body.split_at_checked(start)?;
        whole.extend_from_slice(before);
        let mut rest = list.get(2..)?;
        let mut binders = Vec::new();
        while let Some((&count, behind)) = rest.split_first() {
            let (binder, behind) = behind.split_at_checked(count.into())?;
            binders.push(binder.to_vec());
            rest = behind;
        }
        Some(Self { truncated: whole, binders })
    }

    /// Returns whether the identity at `index` comes with the binder of this external PSK. It holds
    /// for the first ClientHello of a handshake only.
    #[must_use]
    pub fn shows(&self, index: usize, psk: &TlsPsk) -> bool {
        let hash = psk.length.hash();
        let label = |key: &[u8], label: &str, context: &[u8]| {
            expand_label(hash, Layout::Rfc8446, key, label, context)
        };
        let early = extract(hash, &psk.secret);
        let key = label(&early, "ext binder", &hash.digest(&[]));
        let finished = label(&key, "finished", &[]);
        let transcript = hash.digest(&self.truncated);
        let binder = self.binders.get(index).map_or(&[][..], Vec::as_slice);
        hash.verify(&finished, &[&transcript], binder)
    }
}

/// Chooses among the PSKs that an identity, which is number `index` in a ClientHello, may mean. If
/// there are several, the ClientHello without its header shows the host's PSK; without a
/// ClientHello, or if it shows none, the first counts.
#[must_use]
pub fn choose(candidates: Vec<TlsPsk>, index: usize, hello: Option<&[u8]>) -> Option<TlsPsk> {
    let hello = hello.filter(|_| candidates.len() > 1).and_then(ClientHello::read);
    let shown = |psk: &TlsPsk| hello.as_ref().is_some_and(|hello| hello.shows(index, psk));
    let at = candidates.iter().position(shown).unwrap_or(0);
    candidates.into_iter().nth(at)
}

/// A part of a message, from its start.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<usize> {
        self.take(1)?.first().map(|&byte| byte.into())
    }

    fn short(&mut self) -> Option<usize> {
        let bytes: [u8; 2] = self.take(2)?.try_into().ok()?;
        Some(u16::from_be_bytes(bytes).into())
    }
}

/// Finds the list of binders in a ClientHello: the end of the extension `pre_shared_key`, which is the
/// last one.
fn binders_start(body: &[u8]) -> Option<usize> {
    const PRE_SHARED_KEY: usize = 41;
    let mut reader = Reader(body);
    reader.take(2 + 32)?;
    let session = reader.byte()?;
    reader.take(session)?;
    let suites = reader.short()?;
    reader.take(suites)?;
    let compressions = reader.byte()?;
    reader.take(compressions)?;
    let extensions = reader.short()?;
    if extensions != reader.0.len() {
        return None;
    }
    loop {
        let (kind, length) = (reader.short()?, reader.short()?);
        if kind != PRE_SHARED_KEY {
            reader.take(length)?;
            continue;
        }
        if length != reader.0.len() {
            return None;
        }
        let identities = reader.short()?;
        reader.take(identities)?;
        let start = body.len().checked_sub(reader.0.len())?;
        let binders = reader.short()?;
        return (binders == reader.0.len()).then_some(start);
    }
}
