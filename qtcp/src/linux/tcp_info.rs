//! The kernel's `struct tcp_info`.

use core::mem::offset_of;

/// `struct tcp_info` of `linux/tcp.h`, as far as it is used here. The kernel appends to it and
/// tells how much of it there is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    pub(super) state: u8,
    pub(super) ca_state: u8,
    pub(super) retransmits: u8,
    pub(super) probes: u8,
    pub(super) backoff: u8,
    pub(super) options: u8,
    pub(super) window_scales: u8,
    /// Bit 0: `tcpi_delivery_rate_app_limited`; bits 1, 2: `tcpi_fastopen_client_fail`.
    pub(super) bits: u8,
    pub(super) rto: u32,
    pub(super) ato: u32,
    pub(super) snd_mss: u32,
    pub(super) rcv_mss: u32,
    pub(super) unacked: u32,
    pub(super) sacked: u32,
    pub(super) lost: u32,
    pub(super) retrans: u32,
    pub(super) fackets: u32,
    pub(super) last_times: [u32; 4],
    pub(super) pmtu: u32,
    pub(super) rcv_ssthresh: u32,
    pub(super) rtt: u32,
    pub(super) rttvar: u32,
    pub(super) snd_ssthresh: u32,
    pub(super) snd_cwnd: u32,
    pub(super) advmss: u32,
    pub(super) reordering: u32,
    pub(super) rcv_rtt: u32,
    pub(super) rcv_space: u32,
    pub(super) total_retrans: u32,
    pub(super) pacing_rate: u64,
    pub(super) max_pacing_rate: u64,
    pub(super) bytes_acked: u64,
    pub(super) bytes_received: u64,
    pub(super) segs_out: u32,
    pub(super) segs_in: u32,
    pub(super) notsent_bytes: u32,
    pub(super) min_rtt: u32,
    pub(super) data_segs_in: u32,
    pub(super) data_segs_out: u32,
    pub(super) delivery_rate: u64,
    pub(super) busy_time: u64,
    pub(super) rwnd_limited: u64,
    pub(super) sndbuf_limited: u64,
    pub(super) delivered: u32,
    pub(super) delivered_ce: u32,
    pub(super) bytes_sent: u64,
    pub(super) bytes_retrans: u64,
    pub(super) dsack_dups: u32,
    pub(super) reord_seen: u32,
    pub(super) rcv_ooopack: u32,
    pub(super) snd_wnd: u32,
    pub(super) rcv_wnd: u32,
    pub(super) rehash: u32,
    pub(super) total_rto: u16,
    pub(super) total_rto_recoveries: u16,
    pub(super) total_rto_time: u32,
    pub(super) received_ce: u32,
    pub(super) delivered_ecn_bytes: [u32; 3],
    pub(super) received_ecn_bytes: [u32; 3],
    pub(super) ecn_mode: u32,
}

// The offsets of the kernel's header; fields from `received_ce` on came with Linux 6.18.
const _: () = {
    assert!(offset_of!(Raw, pacing_rate) == 104);
    assert!(offset_of!(Raw, delivery_rate) == 160);
    assert!(offset_of!(Raw, delivered_ce) == 196);
    assert!(offset_of!(Raw, snd_wnd) == 228);
    assert!(offset_of!(Raw, total_rto_time) == 244);
    assert!(offset_of!(Raw, received_ce) == 248);
    assert!(size_of::<Raw>() == 280);
};
