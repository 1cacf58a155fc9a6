/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Latencies of the requests of a file or cgroup, in coarser buckets than those of slots. */
#ifndef TIMES_H
#define TIMES_H

/* One bucket per unit below 16, then 8 buckets per octave. */
inlined u32 coarse_bucket(u64 units)
{
	u32 bucket = (u32)units;

	if (units >= 16) {
		u32 top = top_bit(units);

		bucket = 16 + (top - 4) * 8 + (u32)(units >> (top - 3) & 7);
	}
	return bucket < COARSE_BUCKETS ? bucket : COARSE_BUCKETS - 1;
}

/* Counts reads and writes only. */
inlined void tally_times(struct times *times, u32 op, u64 ns)
{
	u32 bucket = coarse_bucket(ns >> COARSE_SHIFT);

	if (!HAS_PART(HISTOGRAMS) || op > OP_WRITE || bucket >= COARSE_BUCKETS)
		return;
	__sync_fetch_and_add(&times->sum_ns[op], ns);
	__sync_fetch_and_add(&times->time[op][bucket], 1);
}

inlined void tally_file(struct flight *flight, u64 ns)
{
	u32 place = flight->file.place;
	struct times *times;

	if (!flight->has_file)
		return;
	times = map_lookup(&file_times, &place);
	if (times && (u32)times->since_ns != flight->file.since) {
		/* User space has emptied the entry meanwhile. */
		place = 0;
		times = map_lookup(&file_times, &place);
	}
	if (times)
		tally_times(times, flight->op, ns);
}

/* Counts a request in the cgroup that its data is charged to. `ns` is NULL if the latency is unknown. */
inlined void tally_cgroup(struct flight *flight, u32 bytes, const u64 *ns)
{
	u32 place = flight->cgroup_place, bucket;
	struct cgroup_use *use;

	if (!HAS_PART(CGROUPS) || !place)
		return;
	use = map_lookup(&cgroup_data, &place);
	if (!use)
		return;
	use->requests += 1;
	if (flight->op == OP_READ)
		use->read_bytes += bytes;
	else
		use->write_bytes += bytes;
	if (!ns || flight->op > OP_WRITE || !HAS_PART(HISTOGRAMS))
		return;
	bucket = coarse_bucket(*ns >> COARSE_SHIFT);
	if (bucket >= COARSE_BUCKETS)
		return;
	use->times.sum_ns[flight->op] += *ns;
	use->times.time[flight->op][bucket] += 1;
}

#endif
