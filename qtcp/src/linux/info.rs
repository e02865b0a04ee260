//! The kernel's view of a connection: `TCP_INFO`.

use core::mem::offset_of;
use core::time::Duration;
use std::io;
use std::os::fd::BorrowedFd;

use super::sys;
use super::tcp_info::Raw;
use crate::Rate;

/// The end of `tcpi_delivered_ce`: every kernel from 4.18 on tells this much.
const BASIC: usize = offset_of!(Raw, delivered_ce) + size_of::<u32>();

/// `TCPI_OPT_ECN`: both ends agreed on ECN.
const OPTION_ECN: u8 = 8;

/// The kernel's view of one connection. Counts of packets are 32 bits wide and wrap; counts of
/// bytes are of payload. Values that a kernel does not report are `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Info {
    /// Whether ECN was negotiated: sent packets can be marked, and the peer echoes marks.
    pub ecn: bool,
    /// Whether the last measurement of the delivery rate was of a sender with too little to send.
    pub app_limited: bool,
    /// Bytes of payload in a full packet that is sent.
    pub snd_mss: u32,
    /// Bytes of payload in packets that come in, as far as the kernel can tell.
    pub rcv_mss: u32,
    /// Packets under way.
    pub unacked: u32,
    /// The round-trip time, smoothed (RFC 6298).
    pub rtt: Duration,
    /// The least round-trip time of the last minutes; `None` before the first measurement.
    pub min_rtt: Option<Duration>,
    /// The congestion window in packets.
    pub snd_cwnd: u32,
    /// Packets that were sent again since the start.
    pub total_retrans: u32,
    /// The rate at which the kernel sends; `None` where it does not limit the rate.
    pub pacing_rate: Option<Rate>,
    /// Bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Bytes that came in, in order.
    pub bytes_received: u64,
    /// Bytes that the application gave and that were not sent yet.
    pub notsent_bytes: u32,
    /// Packets with payload that came in.
    pub data_segs_in: u32,
    /// The time in which the peer's receive window was full while there was something to send.
    pub rwnd_limited: Duration,
    /// Packets that the peer has, those sent again included.
    pub delivered: u32,
    /// Delivered packets that were acknowledged with an echo of a congestion mark. The table of
    /// [`linux`](super) tells how true this count is.
    pub delivered_ce: u32,
    /// Packets that came in with a congestion mark (Linux 6.18), on any connection with ECN.
    pub received_ce: Option<u32>,
}

impl Info {
    /// Reads the kernel's information on `fd`, a TCP socket.
    ///
    /// # Errors
    ///
    /// The kernel's, where `fd` is no TCP socket; `Unsupported` where the kernel is older than
    /// 4.18.
    #[inline]
    pub fn read(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let (raw, len) = sys::get::<Raw>(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
        if len < BASIC {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "TCP_INFO does not count congestion marks: Linux 4.18 or newer is needed",
            ));
        }
        Ok(Self::from_raw(&raw, len))
    }

    /// Reads the facts from the first `len` bytes of the kernel's struct.
    #[inline]
    fn from_raw(raw: &Raw, len: usize) -> Self {
        let told = |offset: usize, value: u32| (len >= offset + size_of::<u32>()).then_some(value);
        Self {
            ecn: raw.options & OPTION_ECN != 0,
            app_limited: raw.bits & 1 != 0,
            snd_mss: raw.snd_mss,
            rcv_mss: raw.rcv_mss,
            unacked: raw.unacked,
            rtt: micros(raw.rtt.into()),
            min_rtt: (raw.min_rtt != u32::MAX).then(|| micros(raw.min_rtt.into())),
            snd_cwnd: raw.snd_cwnd,
            total_retrans: raw.total_retrans,
            pacing_rate: (raw.pacing_rate != u64::MAX).then(|| rate(raw.pacing_rate)),
            bytes_acked: raw.bytes_acked,
            bytes_received: raw.bytes_received,
            notsent_bytes: raw.notsent_bytes,
            data_segs_in: raw.data_segs_in,
            rwnd_limited: micros(raw.rwnd_limited),
            delivered: raw.delivered,
            delivered_ce: raw.delivered_ce,
            received_ce: told(offset_of!(Raw, received_ce), raw.received_ce),
        }
    }
}

#[inline]
fn micros(value: u64) -> Duration {
    Duration::from_micros(value)
}

#[inline]
#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
fn rate(bytes_per_second: u64) -> Rate {
    Rate::new(bytes_per_second as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    /// Makes the two ends of a connection over the loopback device.
    pub(in super::super) fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    /// Sends data one way, and waits until it has come.
    pub(in super::super) fn send(from: &mut TcpStream, to: &mut TcpStream, bytes: usize) {
        let mut left = bytes;
        let chunk = vec![7; 16384];
        let mut sink = vec![0; 16384];
        while left > 0 {
            let now = left.min(chunk.len());
            from.write_all(&chunk[..now]).unwrap();
            to.read_exact(&mut sink[..now]).unwrap();
            left -= now;
        }
        // The acknowledgement is in before the sender can be asked for it.
        to.write_all(b".").unwrap();
        from.read_exact(&mut [0]).unwrap();
    }

    /// Sends data until the peer's buffer and one's own are full.
    pub(in super::super) fn fill(mut from: &TcpStream) {
        from.set_nonblocking(true).unwrap();
        while from.write(&[1; 1 << 12]).is_ok() {}
    }

    #[test]
    fn e1_info_counts_both_directions() {
        let (mut here, mut there) = pair();
        send(&mut here, &mut there, 1_000_000);
        let (sent, got) = (Info::read(here.as_fd()).unwrap(), Info::read(there.as_fd()).unwrap());
        assert_eq!(sent.bytes_acked, 1_000_001, "the payload, and the SYN");
        assert_eq!((sent.bytes_received, got.bytes_received), (1, 1_000_000));
        assert!(sent.snd_mss > 500 && sent.snd_cwnd > 0, "{sent:?}");
        assert!(u64::from(sent.delivered) >= 1_000_000 / u64::from(sent.snd_mss));
        assert!(got.data_segs_in > 0 && got.rcv_mss > 0);
        assert!(sent.rtt > Duration::ZERO && sent.min_rtt.unwrap() > Duration::ZERO);
        assert_eq!((sent.unacked, sent.notsent_bytes), (0, 0));
    }

    #[test]
    fn e1_info_tells_when_a_receiver_holds_up_the_sender() {
        let (here, _there) = pair();
        fill(&here);
        // The kernel counts these times in ticks, of 10 ms at most.
        std::thread::sleep(Duration::from_millis(30));
        let info = Info::read(here.as_fd()).unwrap();
        assert!(info.notsent_bytes > 0, "what the peer does not read stays here: {info:?}");
    }

    #[test]
    fn info_of_something_else_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(Info::read(socket.as_fd()).is_err());
    }

    #[test]
    fn values_missing_from_older_kernel_are_unknown() {
        let (here, _there) = pair();
        let (raw, _) = sys::get::<Raw>(here.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO).unwrap();
        // The structure grew in Linux 6.1 and in 6.18.
        for (length, is_known) in [(BASIC, false), (232, false), (280, true)] {
            assert_eq!(Info::from_raw(&raw, length).received_ce.is_some(), is_known, "{length}");
        }
    }
}
