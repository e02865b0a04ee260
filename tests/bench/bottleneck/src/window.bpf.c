// SPDX-License-Identifier: MIT OR GPL-2.0
// A congestion control whose window comes from user space, in packets, by the storage of a socket.
// The congestion control answers losses as Reno does, never above that window. It does not answer
// marks, which the writer of the window has seen.

typedef unsigned char __u8;
typedef unsigned int __u32;
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define CORE __attribute__((preserve_access_index))

// The used parts of the kernel's structs; the loader finds their offsets in the running kernel.
struct sock {
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
} CORE;

struct inet_connection_sock {
	__u64 icsk_ca_priv[13];
} CORE;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 srtt_us;
	__u32 mss_cache;
	__u32 snd_una;
	__u32 snd_nxt;
} CORE;

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_control)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 new_state);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	char name[16];
} CORE;

#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_F_NO_PREALLOC 1
static void *(*const bpf_sk_storage_get)(void *map, void *sk, void *value, __u64 flags) = (void *)107;

enum { TCP_CA_OPEN, TCP_CA_DISORDER, TCP_CA_CWR, TCP_CA_RECOVERY, TCP_CA_LOSS };
enum { SK_PACING_NONE, SK_PACING_NEEDED };

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} windows SEC(".maps");

#define NO_LOSS 0xffffffffU
#define LEAST 2U

// In the connection's private area.
struct loss {
	__u32 limit; // the window in packets since the last loss; NO_LOSS where it is forgotten
	__u32 state; // of the kernel: TCP_CA_*
	__u32 grown; // the end of the round trip after which the limit grows by one
};

static inline struct loss *loss_of(struct tcp_sock *tp)
{
	return (struct loss *)tp->inet_conn.icsk_ca_priv;
}

static inline __u32 at_least(__u32 value)
{
	return value < LEAST ? LEAST : value;
}

SEC("struct_ops") void window_init(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct sock *sk = (struct sock *)ctx[0];
	struct loss *loss = loss_of(tp);

	loss->limit = NO_LOSS;
	loss->state = TCP_CA_OPEN;
	loss->grown = tp->snd_nxt;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

// Also asked for when a mark is echoed: the window does not follow it, see window_control.
SEC("struct_ops") __u32 window_ssthresh(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];

	return at_least(tp->snd_cwnd);
}

SEC("struct_ops") void window_state(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	__u8 state = (__u8)ctx[1];
	struct loss *loss = loss_of(tp);

	if (state >= TCP_CA_RECOVERY && loss->state < TCP_CA_RECOVERY) {
		loss->limit = at_least(tp->snd_cwnd / 2);
		loss->grown = tp->snd_nxt;
	}
	loss->state = state;
}

// The kernel found that nothing was lost.
SEC("struct_ops") __u32 window_undo(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];

	loss_of(tp)->limit = NO_LOSS;
	return tp->snd_cwnd;
}

// Each acknowledgement.
SEC("struct_ops") void window_control(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct sock *sk = (struct sock *)ctx[0];
	struct loss *loss = loss_of(tp);
	__u32 *told = bpf_sk_storage_get(&windows, tp, 0, 0);
	__u32 cwnd = tp->snd_cwnd, window = cwnd;
	__u64 rate;

	// Apart from the read above: the verifier does not let one load have two kinds of pointers.
	asm volatile("" : "+r"(window));
	if (told)
		window = *told;

	if (loss->limit != NO_LOSS && loss->state < TCP_CA_RECOVERY && (int)(tp->snd_una - loss->grown) > 0) {
		loss->grown = tp->snd_nxt;
		loss->limit++;
		if (loss->limit >= window)
			loss->limit = NO_LOSS;
	}
	if (window > loss->limit)
		window = loss->limit;
	if (window > tp->snd_cwnd_clamp)
		window = tp->snd_cwnd_clamp;
	// After a timeout the limit starts from what is under way: it is reached by a packet for each
	// acknowledgement.
	if (loss->state == TCP_CA_LOSS && window > cwnd + 1)
		window = cwnd + 1;
	if (!window)
		window = 1;
	tp->snd_cwnd = window;

	// Paced at the kernel's 120 % of a window in a round trip, so that it leaves in no burst.
	if (tp->srtt_us) {
		rate = (__u64)window * tp->mss_cache * (8000000 / 10 * 12) / tp->srtt_us;
		sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
	}
}

SEC(".struct_ops.link") struct tcp_congestion_ops window = {
	.init = (void *)window_init,
	.ssthresh = (void *)window_ssthresh,
	.set_state = (void *)window_state,
	.undo_cwnd = (void *)window_undo,
	.cong_control = (void *)window_control,
	.name = "sluice_window",
};

char _license[] SEC("license") = "Dual MIT/GPL";
