/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Latency by request flag. Of several flags the rarest counts. Requests without one are not counted. */
#ifndef FLAG_H
#define FLAG_H

inlined u32 flag_of(struct flight *flight, u32 flags)
{
	if (flight->class > CLASS_JOURNAL || flight->op > OP_WRITE)
		return FLAG_NONE;
	if (flags >> ENUM_VALUE(enum req_flag_bits, __REQ_FUA) & 1)
		return FLAG_FUA;
	if (flags >> ENUM_VALUE(enum req_flag_bits, __REQ_META) & 1)
		return FLAG_META;
	if (flags >> ENUM_VALUE(enum req_flag_bits, __REQ_RAHEAD) & 1)
		return FLAG_READ_AHEAD;
	/* All reads but read-ahead are synchronous, so the flag says nothing about them. */
	if (flight->op == OP_WRITE && flags >> ENUM_VALUE(enum req_flag_bits, __REQ_SYNC) & 1)
		return FLAG_SYNC;
	return FLAG_NONE;
}

inlined void tally_flag(struct flight *flight, u32 bytes, u64 ns)
{
	u32 index = flight->op * FLAGS + flight->flag;
	struct flag_use *use;

	if (!flight->flag)
		return;
	use = map_lookup(&flag_data, &index);
	if (!use)
		return;
	use->bytes += bytes;
	use->total_ns += ns;
	TALLY(use->time, TIME_BUCKETS, ns >> TIME_SHIFT);
}

#endif
