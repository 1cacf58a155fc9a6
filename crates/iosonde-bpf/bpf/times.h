/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Latencies of the requests of one file or cgroup: coarser than those of slots. */
#ifndef TIMES_H
#define TIMES_H

/* One by one below 16, then 8 buckets per octave. */
inlined u32 coarse_bucket(u64 units)
{
	u32 bucket = (u32)units;

	if (units >= 16) {
		u32 top = top_bit(units);

		bucket = 16 + (top - 4) * 8 + (u32)(units >> (top - 3) & 7);
	}
	return bucket < COARSE_BUCKETS ? bucket : COARSE_BUCKETS - 1;
}

/* Reads and writes only. */
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
	struct file_use *file;
	struct times *times;

	if (!flight->has_file)
		return;
	file = map_lookup(&file_data, &place);
	/* It may have been emptied meanwhile. */
	if (!file || file->since_ns != flight->file.since_ns)
		place = 0;
	times = map_lookup(&file_times, &place);
	if (times)
		tally_times(times, flight->op, ns);
}

/* A request ends in the cgroup that its data are charged to; NULL if its latency is not known. */
inlined void tally_cgroup(struct flight *flight, u32 bytes, const u64 *ns)
{
	u64 key = flight->cgroup;
	struct cgroup_use *use;

	if (!HAS_PART(CGROUPS) || !key)
		return;
	use = map_lookup(&cgroups, &key);
	if (!use) {
		static const struct cgroup_use fresh;

		map_update(&cgroups, &key, &fresh, NOEXIST);
		use = map_lookup(&cgroups, &key);
		if (!use) {
			COUNT(lost_cgroups, 1);
			return;
		}
	}
	__sync_fetch_and_add(&use->requests, 1);
	if (flight->op == OP_READ)
		__sync_fetch_and_add(&use->read_bytes, bytes);
	else
		__sync_fetch_and_add(&use->write_bytes, bytes);
	if (ns)
		tally_times(&use->times, flight->op, *ns);
}

#endif
