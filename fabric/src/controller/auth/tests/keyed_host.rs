//! A host that has a key of TLS made, for tests.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::controller::GeneratedKey;
use crate::dhchap::Work;
use crate::dhchap::proof::Challenge;
use crate::fabrics::{
    AuthHeader, AuthKind, AuthProtocol, ChallengeHead, Concatenation, Negotiate, ReplyHead,
};
use crate::tls_psk::{PskLength, generated, generated_tls_psk};

pub(super) const OWN: u8 = 5;

/// A host that has a key made, as the Linux kernel does it: it does not want to know whether the
/// controller has a secret.
#[derive(Clone, Copy)]
pub(super) struct Host {
    pub(super) own: u8,
    pub(super) channel: u8,
    pub(super) hashes: &'static [Hash],
    pub(super) groups: &'static [Group],
    /// S2.
    pub(super) sequence: u32,
    pub(super) cvalid: u8,
    /// SC_C in its authentication.
    pub(super) proved: u8,
}

pub(super) const LINUX: Host = Host {
    own: OWN,
    channel: 2,
    hashes: &Hash::ALL,
    groups: &[Group::Ffdhe2048, Group::Ffdhe3072],
    sequence: 0,
    cvalid: 1,
    proved: 2,
};

impl Host {
    pub(super) fn asking(channel: Concatenation) -> Self {
        Self { channel: channel.id(), proved: channel.id(), ..LINUX }
    }

    pub(super) fn negotiate(&self) -> Vec<u8> {
        let header = AuthHeader::new(AuthKind::Negotiate, 7);
        let head = Negotiate { header, sc_c: self.channel, napd: 1 };
        let hashes = self.hashes.iter().map(|hash| hash.id());
        let protocol = AuthProtocol::new(hashes, self.groups.iter().map(|group| group.id()));
        [head.as_bytes(), protocol.as_bytes()].concat()
    }

    /// Answers a challenge. Returns the message, and the key that the host has made.
    pub(super) fn reply(
        &self,
        challenge: &[u8],
        names: Names<'_>,
    ) -> (Vec<u8>, Option<GeneratedKey>) {
        let (head, rest) = ChallengeHead::read_from_prefix(challenge).unwrap();
        let (hash, group) =
            (Hash::from_id(head.hash).unwrap(), Group::from_id(head.group).unwrap());
        let (value, rest) = rest.split_at(hash.length());
        let peer = Some(rest[..group.length()].to_vec());
        let worked = Work { group, exponent: None, peer }.run(&random(&mut 90));
        let (fresh, shared) = (worked.fresh.unwrap(), worked.shared.unwrap().0);
        let theirs = Challenge {
            hash,
            transaction: 7,
            sequence: head.sequence.get(),
            value,
            shared: &shared,
            channel: self.proved,
        };
        let response = theirs.host_response(&secret(self.own), names);
        let own = fresh.challenge(hash);
        let head = ReplyHead {
            header: AuthHeader::new(AuthKind::Reply, 7),
            hl: u8::try_from(hash.length()).unwrap(),
            reserved7: 0,
            cvalid: self.cvalid,
            reserved9: 0,
            dhvlen: U16::new(u16::try_from(group.length()).unwrap()),
            sequence: U32::new(self.sequence),
        };
        let key = PskLength::for_hash(hash).map(|length| {
            let psk = generated(hash, &shared, [value, own]);
            let (identity, psk) = generated_tls_psk(length, &psk, (names.host, names.subsystem));
            GeneratedKey { identity, psk }
        });
        ([head.as_bytes(), &response, own, &fresh.public].concat(), key)
    }
}
