/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Depth: the number of requests in flight, how long each depth lasts, and which one each request finds. */
#ifndef DEPTH_H
#define DEPTH_H

inlined void count_level(struct levels *levels, u32 level, u64 ns, int arrives)
{
	u32 bucket = bucket_of(level, DEPTH_BUCKETS);

	if (bucket >= DEPTH_BUCKETS)
		return;
	levels->time_ns[bucket] += ns;
	if (!arrives)
		return;
	levels->arrivals[bucket] += 1;
	if (level + 1 > levels->max)
		levels->max = level + 1;
}

/* Prefetches the cache line of a disk's depth for writing, like `fetch_flight_place`. */
inlined void fetch_depth(u32 index)
{
	volatile struct depth *depth = map_lookup(&depths, &index);

	if (depth)
		depth->spare[0] = 0;
}

/* A request begins (1) or ends (-1). */
inlined void enter_depth(struct flight *flight, u64 now, s64 by)
{
	u32 index = flight->disk_index;
	struct depth *depth = map_lookup(&depths, &index);
	struct depth_use *use = map_lookup(&depth_data, &index);
	int is_own = flight->class <= CLASS_WRITE_BACK;
	u64 since, before, ns;

	if (!depth || !use || !HAS_PART(DEPTH))
		return;
	before = __sync_fetch_and_add(&depth->level, by + (is_own ? by << 32 : 0));
	since = __sync_lock_test_and_set(&depth->since_ns, now);
	ns = since && now > since ? now - since : 0;
	if ((u32)before == before >> 32 && is_own) {
		count_level(&use->both, (u32)before, ns, by > 0);
		return;
	}
	count_level(&use->all, (u32)before, ns, by > 0);
	count_level(&use->program, before >> 32, ns, by > 0 && is_own);
}

/* Adds the latency of a request that ended by a merge; no slot counts it. */
inlined void add_merged(struct flight *flight, u64 ns)
{
	u32 index = flight->disk_index;
	struct depth_use *use = map_lookup(&depth_data, &index);

	if (!use)
		return;
	use->all.merged_ns += ns;
	if (flight->class <= CLASS_WRITE_BACK)
		use->program.merged_ns += ns;
}

#endif
