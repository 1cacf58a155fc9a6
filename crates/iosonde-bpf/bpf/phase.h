/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Phases of the disks' work during a sync: the program's data, journal and metadata, or a flush. Requests
 * of several may overlap; the phase is the last of these in this order that has one in flight. So the
 * phases and the time in none add up to the whole. Nothing is counted before the first sync. */
#ifndef PHASE_H
#define PHASE_H

inlined struct phases *phases_now(void)
{
	u32 zero = 0;

	return map_lookup(&phase_state, &zero);
}

/* The phase at a level: the requests in flight, 16 bits per phase. */
inlined u32 phase_of(u64 level)
{
	if (level >> 32)
		return PHASE_FLUSH;
	if (level >> 16)
		return PHASE_JOURNAL;
	return level ? PHASE_DATA : PHASE_NONE;
}

/* The phase that a request is part of. Flushes of others count; their writes are part of none. */
inlined u32 phase_of_request(struct flight *flight, u32 flags)
{
	u32 meta = ENUM_VALUE(enum req_flag_bits, __REQ_META);
	struct phases *phases;

	if (flight->op != OP_WRITE && flight->op != OP_FLUSH)
		return PHASE_NONE;
	phases = phases_now();
	if (!phases || !phases->is_wanted)
		return PHASE_NONE;
	if (flight->op == OP_FLUSH)
		return PHASE_FLUSH;
	if (flight->class == CLASS_OTHER)
		return PHASE_NONE;
	return flight->class == CLASS_JOURNAL || flags >> meta & 1 ? PHASE_JOURNAL : PHASE_DATA;
}

/* A request of a phase begins (1) or ends (-1). */
inlined void enter_phase(struct flight *flight, u64 now, s64 by)
{
	struct phases *phases;
	u64 before, since;
	u32 from, to;

	if (!flight->phase)
		return;
	phases = phases_now();
	if (!phases)
		return;
	by <<= 16 * ((flight->phase - 1) & 3);
	before = __sync_fetch_and_add(&phases->level, by);
	from = phase_of(before);
	to = phase_of(before + by);
	if (from == to)
		return;
	since = __sync_lock_test_and_set(&phases->since_ns, now);
	if (from && from <= PHASES && now > since)
		__sync_fetch_and_add(&phases->sum_ns[from - 1], now - since);
}

/* Time in each phase up to now. The first call starts the counting. */
inlined void phase_sums(u64 now, u64 *sums)
{
	volatile struct phases *phases = phases_now();
	u64 since, level;
	u32 phase;

	if (!phases)
		return;
	phases->is_wanted = 1;
#pragma unroll
	for (int attempt = 0; attempt < 3; attempt++) {
		since = phases->since_ns;
		level = phases->level;
		sums[0] = phases->sum_ns[0];
		sums[1] = phases->sum_ns[1];
		sums[2] = phases->sum_ns[2];
		/* Otherwise the phase has changed meanwhile. */
		if (phases->since_ns == since)
			break;
	}
	phase = phase_of(level);
	since = now > since ? now - since : 0;
	if (phase == PHASE_DATA)
		sums[0] += since;
	else if (phase == PHASE_JOURNAL)
		sums[1] += since;
	else if (phase == PHASE_FLUSH)
		sums[2] += since;
}

/* Turns the sums at the begin of a sync into its time in each phase; together no longer than the sync. */
inlined void phases_since(u64 now, u64 ns, u64 *sums)
{
	u64 later[PHASES] = {};

	phase_sums(now, later);
#pragma unroll
	for (int at = PHASES - 1; at >= 0; at--) {
		u64 passed = later[at] > sums[at] ? later[at] - sums[at] : 0;

		sums[at] = passed < ns ? passed : ns;
		ns -= sums[at];
	}
}

#endif
