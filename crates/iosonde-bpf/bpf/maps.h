/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Constants that the loader sets, the maps, and the functions that count in them. */
#ifndef MAPS_H
#define MAPS_H

#include "helpers.h"
#include "layout.h"

/* Set by the loader before the programs are loaded. */
const volatile u32 wants_layers = 0; /* whether I/O calls are timed */
const volatile u32 counts_waits = 0; /* whether waits for I/O are timed here, not by the kernel */
const volatile u32 begins_at = 0; /* which event begins a request: 0 io_start, 1 insert, 2 issue */
const volatile u32 watches_all = 1; /* 1: every disk; 0: only those that the loader put into `disks` */
const volatile u32 flag_direct = 0, flag_sync = 0, flag_dsync = 0; /* O_… of this architecture */
const volatile u32 page_bytes = 4096;
const volatile u32 without = 0; /* bit mask of parts to leave out, to measure their cost */

enum { END_SHIFT = 10, END_BITS = 4, SEEN_SHIFT = 12 };

enum part { PLACES, SEQUENCE, FILES, CGROUPS, DEPTH, GAPS, HISTOGRAMS };

/* The verifier removes code that a constant makes unreachable: a part that is kept costs no test. */
#define HAS_PART(part) (!(without >> (part) & 1))

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct { u32 generation; u32 has_begun; });
} control SEC(".maps");

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct counts);
} counts SEC(".maps");

#define TABLE(name, kind, entries, key_type, value_type)  \
	struct {                                          \
		NUMBER(type, kind);                       \
		NUMBER(max_entries, entries);             \
		TYPE(key, key_type);                      \
		TYPE(value, value_type);                  \
	} name SEC(".maps")

/* An array that begins at a page boundary, so that structures whose size is a multiple of a cache line
 * are aligned to cache lines. CPUs that count in neighbouring entries then share no line. */
#define ALIGNED(name, entries, value_type)                \
	struct {                                          \
		NUMBER(type, MAP_ARRAY);                  \
		NUMBER(map_flags, MMAPABLE);              \
		NUMBER(max_entries, entries);             \
		TYPE(key, u32);                           \
		TYPE(value, value_type);                  \
	} name SEC(".maps")

/* Indexes of array entries that user space has emptied for reuse. */
#define FREE_PLACES(name, entries)                        \
	struct {                                          \
		NUMBER(type, MAP_QUEUE);                  \
		NUMBER(max_entries, entries);             \
		NUMBER(key_size, 0);                      \
		NUMBER(value_size, 4);                    \
	} name SEC(".maps")

TABLE(followed, MAP_HASH, 65536, u32, u32); /* process ID -> 1, or 0 once it has ended */
TABLE(threads, MAP_HASH, THREAD_PLACES, u32, u32); /* thread ID -> index in `thread_data` */
TABLE(thread_data, MAP_ARRAY, THREAD_PLACES, u32, struct thread);
TABLE(thread_count, MAP_ARRAY, 1, u32, u32); /* entries ever in use, without entry 0 */
FREE_PLACES(thread_free, THREAD_PLACES);
TABLE(threads_seen, MAP_ARRAY, 1 << SEEN_SHIFT, u32, u32); /* see `thread_of` */
TABLE(ends, MAP_ARRAY, 1 << END_SHIFT, u32, u64); /* see `end_of` */
TABLE(groups, MAP_HASH, 128, char[16], u32);
TABLE(group_count, MAP_ARRAY, 1, u32, u32);
TABLE(disks, MAP_HASH, 32, u32, u32);
TABLE(disk_count, MAP_ARRAY, 1, u32, u32);
TABLE(slots, MAP_HASH, 512, struct slot_key, u32);
TABLE(slot_count, MAP_ARRAY, 1, u32, u32);
TABLE(slot_data, MAP_PERCPU_ARRAY, 128, u32, struct slot); /* 16 KiB per slot and CPU */
TABLE(arrivals, MAP_ARRAY, 128, u32, struct arrival);
ALIGNED(depths, DISKS, struct depth);
TABLE(depth_data, MAP_PERCPU_ARRAY, DISKS, u32, struct depth_use);
ALIGNED(flight_places, 1 << FLIGHT_SHIFT, struct flight);
TABLE(flights, MAP_HASH, 16384, u64, struct flight); /* whose entry in the array is taken */
TABLE(flight_count, MAP_ARRAY, 1, u32, u64); /* entries of `flights` now */
TABLE(owners, MAP_LRU_HASH, 65536, struct owner_key, struct owner);
TABLE(files, MAP_HASH, FILE_PLACES, struct file_key, struct file_place);
ALIGNED(file_data, FILE_PLACES, struct file_use);
TABLE(file_times, MAP_ARRAY, FILE_PLACES, u32, struct times); /* same indexes as `file_data` */
TABLE(file_count, MAP_ARRAY, 1, u32, u32); /* entries ever in use, without entry 0 */
FREE_PLACES(file_free, FILE_PLACES);
TABLE(file_scratch, MAP_PERCPU_ARRAY, 1, u32, struct file_use);
TABLE(thread_scratch, MAP_PERCPU_ARRAY, 1, u32, struct thread);
TABLE(cgroups, MAP_HASH, CGROUPS_KEPT, u64, u32);
TABLE(cgroup_count, MAP_ARRAY, 1, u32, u32); /* entries in use, without entry 0 */
TABLE(cgroup_data, MAP_PERCPU_ARRAY, CGROUPS_KEPT, u32, struct cgroup_use);
TABLE(chunks, MAP_HASH, 32768, struct chunk_key, struct chunk);
TABLE(sampling_state, MAP_ARRAY, 1, u32, struct sampling);
TABLE(flag_data, MAP_PERCPU_ARRAY, 2 * FLAGS, u32, struct flag_use); /* reads, writes */
TABLE(phase_state, MAP_ARRAY, 1, u32, struct phases);
TABLE(uring_syncs, MAP_HASH, 8192, u64, struct uring_sync);
TABLE(uring_count, MAP_ARRAY, 1, u32, u64); /* entries of `uring_syncs` now */
TABLE(submits, MAP_HASH, 16384, u64, struct submitted);
TABLE(work_data, MAP_PERCPU_ARRAY, WORKS, u32, struct work_use);
TABLE(spans, MAP_HASH, 8192, u64, struct span); /* by kind and thread */
/* `stacks`, `blocked_threads` and `frames`: the loader shortens them if no stacks are requested. */
TABLE(stacks, MAP_HASH, 16384, struct stack_key, struct stack_use);
TABLE(blocked_threads, MAP_HASH, 16384, u32, struct blocked);
struct {
	NUMBER(type, MAP_STACK_TRACE);
	NUMBER(max_entries, 16384);
	NUMBER(key_size, 4);
	NUMBER(value_size, FRAMES * 8);
} frames SEC(".maps");
TABLE(layer_data, MAP_PERCPU_ARRAY, 1, u32, struct layers);

#define COUNT(field, value)                                                 \
	do {                                                                \
		u32 _zero = 0;                                              \
		struct counts *_counts = map_lookup(&counts, &_zero);       \
		if (_counts)                                                \
			__sync_fetch_and_add(&_counts->field, (u64)(value)); \
	} while (0)

/* Index of a free entry of an array, or 0. */
inlined u32 free_place(void *freed, void *used, u32 places)
{
	u32 zero = 0, place = 0, *count;

	if (!map_pop(freed, &place))
		return place;
	count = map_lookup(used, &zero);
	if (!count || *count >= places - 1)
		return 0;
	place = __sync_fetch_and_add(count, 1) + 1;
	return place < places ? place : 0;
}

/* Position of the highest set bit; 0 for 0. Without branches: the verifier would follow both sides of
 * each, for every value that is counted. */
inlined u32 top_bit(u64 value)
{
	value |= value >> 1;
	value |= value >> 2;
	value |= value >> 4;
	value |= value >> 8;
	value |= value >> 16;
	value |= value >> 32;
	return (u32)__builtin_popcountll(value >> 1);
}

/* One bucket per unit below 64, then 32 buckets per octave. */
inlined u32 bucket_of(u64 units, u32 buckets)
{
	u32 bucket = (u32)units;

	if (units >= 64) {
		u32 top = top_bit(units);

		bucket = 64 + (top - 6) * 32 + (u32)(units >> (top - 5) & 31);
	}
	return bucket < buckets ? bucket : buckets - 1;
}

#define TALLY(array, buckets, units)                                  \
	if (HAS_PART(HISTOGRAMS)) do {                                \
		u32 _bucket = bucket_of(units, buckets);              \
		if (_bucket < (buckets))                              \
			(array)[_bucket] += 1;                        \
	} while (0)

#endif
