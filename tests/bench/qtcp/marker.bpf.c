// An ECN switch on a Linux router whose kernel has no red or fq_codel: `enter` on the egress of the
// bottleneck's device, before its token bucket, `leave` on the ingress of the peer, after it. The
// bytes between the two are the queue, to the byte; what enters a queue above the threshold is
// marked. The bucket's own limit must be large enough that it never drops.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct queue { __u64 threshold, bytes, packets, marked, largest; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct queue);
} queue SEC(".maps");

static __always_inline struct queue *the_queue(void)
{
	__u32 key = 0;
	return bpf_map_lookup_elem(&queue, &key);
}

SEC("classifier/enter") int enter(struct __sk_buff *skb)
{
	struct queue *q = the_queue();
	if (!q)
		return 0;
	__u64 before = __sync_fetch_and_add(&q->bytes, skb->len);
	__sync_fetch_and_add(&q->packets, 1);
	if (before > q->largest)
		q->largest = before;
	if (q->threshold && before > q->threshold && bpf_skb_ecn_set_ce(skb) > 0)
		__sync_fetch_and_add(&q->marked, 1);
	return 0;
}

SEC("classifier/leave") int leave(struct __sk_buff *skb)
{
	struct queue *q = the_queue();
	if (q)
		__sync_fetch_and_add(&q->bytes, -(__u64)skb->len);
	return 0;
}

char _license[] SEC("license") = "GPL";
