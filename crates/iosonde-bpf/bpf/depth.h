/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Requests in flight: their number, how long each number lasts, and what each request finds. */
#ifndef DEPTH_H
#define DEPTH_H

static __attribute__((noinline)) int change_depth(u32 index, u64 now, s64 by)
{
	struct depth *depth = map_lookup(&depths, &index);
	u64 since, level;
	s64 before;
	u32 bucket;

	if (!depth || !HAS_PART(DEPTH))
		return 0;
	before = __sync_fetch_and_add(&depth->level, by);
	since = __sync_lock_test_and_set(&depth->since_ns, now);
	level = before > 0 ? before : 0;
	bucket = bucket_of(level, DEPTH_BUCKETS);
	if (bucket >= DEPTH_BUCKETS)
		return 0;
	if (since && now > since)
		__sync_fetch_and_add(&depth->time_ns[bucket], now - since);
	if (by > 0) {
		__sync_fetch_and_add(&depth->arrivals[bucket], 1);
		if (level + 1 > depth->max)
			depth->max = level + 1;
	}
	return 0;
}

inlined void enter_depth(struct flight *flight, u64 now, s64 by)
{
	change_depth(flight->disk_index * 2, now, by);
	if (flight->class <= CLASS_WRITE_BACK)
		change_depth(flight->disk_index * 2 + 1, now, by);
}

inlined void add_area(struct flight *flight, u64 ns)
{
	u32 all = flight->disk_index * 2, program = all + 1;
	struct depth *depth = map_lookup(&depths, &all);

	if (depth)
		__sync_fetch_and_add(&depth->area_ns, ns);
	if (flight->class > CLASS_WRITE_BACK)
		return;
	depth = map_lookup(&depths, &program);
	if (depth)
		__sync_fetch_and_add(&depth->area_ns, ns);
}

#endif
