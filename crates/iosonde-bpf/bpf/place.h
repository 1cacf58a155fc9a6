/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Positions on the disk: sequential requests within a thread's streams, and the chunks touched. */
#ifndef PLACE_H
#define PLACE_H

/* A sector with the disk's index in the top bits; 2^40 sectors are 512 TiB. */
inlined u64 place_of(u32 disk_index, u64 sector)
{
	return (u64)(disk_index + 1) << 40 | (sector & ((1ULL << 40) - 1));
}

enum { APART, SEQUENTIAL, STRIDED };
enum { LAST_PAGE = 8 }; /* sectors */

/* Whether a request continues a stream of the thread: it begins where an earlier request ended, or in that
 * one's last page, which an append writes again. A stream that has continued once is kept, and may rewrite
 * that page without growing. New streams replace each other, so random requests do not push out the rest. */
apart int sequence(struct thread *thread, u64 begin, u64 end)
{
	s64 distance;
	int kind = APART;

	if (!thread)
		return APART;
	distance = (s64)(begin - thread->last_sector);

#pragma unroll
	for (int i = 0; i < STREAMS; i++) {
		u64 again = thread->streams[i] - begin;

		if (kind == APART && again <= LAST_PAGE && begin + again < end + (i >= PROBATION && again)) {
			kind = SEQUENTIAL;
			if (i < PROBATION) {
				u32 kept = thread->next_kept & (STREAMS - PROBATION - 1);

				thread->next_kept = kept + 1;
				thread->streams[i] = 0;
				thread->streams[PROBATION + kept] = end;
			} else {
				thread->streams[i] = end;
			}
		}
	}
	if (kind == APART) {
		thread->streams[thread->next_new & (PROBATION - 1)] = end;
		thread->next_new += 1;
		if (distance == thread->last_distance && distance)
			kind = STRIDED;
	}
	thread->last_distance = distance;
	thread->last_sector = begin;
	return kind;
}

inlined u64 bits(u32 first, u32 last, u32 word)
{
	u32 low = word * 64, high = low + 63;

	if (first > high || last < low)
		return 0;
	low = first > low ? first - low : 0;
	high = last < high ? last & 63 : 63;
	return (~0ULL >> (63 - (high - low) & 63)) << low;
}

/* Hash of a chunk's number. `src/layout.rs` has the same function. */
inlined u64 hash_of(u64 number)
{
	number = (number + 1) * 0x9e3779b97f4a7c15ULL;
	number ^= number >> 32;
	number *= 0xd6e8feb86659fd93ULL;
	return number ^ number >> 32;
}

/* The kept block of each of a chunk's 16 groups of 16 blocks, in 4 bits each. It is chosen by a hash: a load
 * with a stride would touch all or none if every 16th block were kept. */
inlined u64 kept_of_groups(u64 hash)
{
	return (hash >> 32 | hash << 32) * 0x9e3779b97f4a7c15ULL;
}

/* The kept block of a group. */
inlined u32 kept_in(u64 groups, u32 group)
{
	return group << 4 | (groups >> (group << 2 & 63) & 15);
}

/* Mask of the kept blocks among 64 adjacent ones; all of them before blocks are sampled. */
inlined u64 kept_blocks(u64 groups, u32 shift, u32 word)
{
	u64 kept = 0;

	if (!shift)
		return ~0ULL;
#pragma unroll
	for (u32 group = 0; group < 4; group++)
		kept |= 1ULL << (kept_in(groups, word * 4 + group) & 63);
	return kept;
}

/* Adds a chunk. At CHUNKS_KEPT chunks, only those are kept whose hash ends in one more zero bit; user space
 * removes the others. */
static __attribute__((noinline)) int add_chunk(struct chunk_key *key, struct sampling *sampling)
{
	static const struct chunk fresh;
	u64 kept;

	if (!key || !sampling)
		return 0;
	if (map_update(&chunks, key, &fresh, NOEXIST))
		return 0;
	kept = __sync_fetch_and_add(&sampling->chunks, 1) + 1;
	if (kept >= CHUNKS_KEPT &&
	    __sync_val_compare_and_swap(&sampling->chunks, kept, kept / 2) == kept)
		__sync_fetch_and_add(&sampling->chunk_shift, 1);
	return 0;
}

/* Once blocks are sampled, one request in 16 is counted: by chance, not by its first block, which in many
 * loads is a multiple of 16. */
inlined u32 is_sampled(u64 chance)
{
	return !(chance * 0x9e3779b97f4a7c15ULL >> (64 - BLOCK_SAMPLE_SHIFT));
}

/* Whether a request marks nothing: its chunk is not kept; or the request is not sampled, and none of its
 * blocks is kept. True for most small requests. */
inlined int is_left_out(struct sampling *sampling, u64 hash, u32 first, u32 last, u64 chance)
{
	u64 groups = kept_of_groups(hash);
	u32 low, high;

	if (hash & ((1ULL << (sampling->chunk_shift & 31)) - 1))
		return 1;
	if (!sampling->block_shift || is_sampled(chance) || last >> 4 > (first >> 4) + 1)
		return 0;
	low = kept_in(groups, first >> 4);
	high = kept_in(groups, last >> 4);
	return (low < first || low > last) && (high < first || high > last);
}

/* A request continues within the block in which the one before it ended; that is no overwrite of it. */
enum { GOES_ON = 1 << 16 };

/* `span` has the first block in bits 0 to 7, the last one in bits 8 to 15, and the flag GOES_ON. */
apart int mark_chunk(u32 disk, u64 number, u32 span, u32 op, u64 chance)
{
	struct chunk_key key = { .disk = disk, .number = number };
	u32 first = span & 255, last = span >> 8 & 255, zero = 0, shift, counted;
	struct sampling *sampling = map_lookup(&sampling_state, &zero);
	u64 groups = kept_of_groups(hash_of(number));
	struct chunk *chunk;

	if (!sampling)
		return 0;
	shift = sampling->block_shift;
	counted = !shift || is_sampled(chance);
	if (!shift && __sync_fetch_and_add(&sampling->marks, 1) >= MARKS_KEPT)
		sampling->block_shift = BLOCK_SAMPLE_SHIFT;
	chunk = map_lookup(&chunks, &key);
	if (!chunk) {
		add_chunk(&key, sampling);
		chunk = map_lookup(&chunks, &key);
		if (!chunk) {
			COUNT(lost_chunk_bytes, (u64)(last - first + 1) << BLOCK_SHIFT);
			return 0;
		}
	}
	/* Each sampled request counts for 2^shift. */
	if (counted)
		__sync_fetch_and_add(op == OP_READ ? &chunk->reads : &chunk->writes, 1 << shift);
	if (span & GOES_ON && ++first > last)
		return 0;
#pragma unroll
	for (u32 word = 0; word < 4; word++) {
		u64 mask = bits(first, last, word) & kept_blocks(groups, shift, word), before;

		if (!mask)
			continue;
		if (op == OP_READ) {
			if ((chunk->read[word] & mask) != mask)
				__sync_fetch_and_or(&chunk->read[word], mask);
			continue;
		}
		before = __sync_fetch_and_or(&chunk->written[word], mask);
		__sync_fetch_and_add(&chunk->block_writes,
				     (u64)__builtin_popcountll(mask) << shift);
		if (before & mask)
			__sync_fetch_and_add(&chunk->overwrites,
					     (u64)__builtin_popcountll(before & mask) << shift);
	}
	return 0;
}

enum { BLOCKS_PER_CHUNK_SHIFT = CHUNK_SHIFT - BLOCK_SHIFT };

inlined void mark_if_kept(struct sampling *sampling, u32 disk, u64 chunk, u32 span, u32 op, u64 chance)
{
	if (!is_left_out(sampling, hash_of(chunk), span & 255, span >> 8 & 255, chance))
		mark_chunk(disk, chunk, span, op, chance);
}

/* Marks blocks of several chunks. */
apart int mark_chunks(u32 disk, u64 first, u64 last, u32 op, u64 chance)
{
	u32 zero = 0;
	struct sampling *sampling = map_lookup(&sampling_state, &zero);

	if (!sampling)
		return 0;
	for (int i = 0; i < 9 && first <= last; i++) {
		u64 chunk = first >> BLOCKS_PER_CHUNK_SHIFT;
		u64 end = (chunk + 1) << BLOCKS_PER_CHUNK_SHIFT;
		u64 stop = last < end ? last : end - 1;

		mark_if_kept(sampling, disk, chunk, (first & 255) | (stop & 255) << 8, op, chance);
		first = end;
	}
	if (first <= last)
		COUNT(lost_chunk_bytes, (last - first + 1) << BLOCK_SHIFT);
	return 0;
}

/* Marks the blocks of a request. Most requests lie in one chunk and are left out, without a call. */
inlined void mark_places(struct flight *flight, u64 sector, u32 bytes)
{
	u64 first = sector >> (BLOCK_SHIFT - SIZE_SHIFT);
	u64 last = (sector + (bytes >> SIZE_SHIFT) - 1) >> (BLOCK_SHIFT - SIZE_SHIFT);
	u64 chunk = first >> BLOCKS_PER_CHUNK_SHIFT, chance = flight->start_ns;
	u32 zero = 0, span = (first & 255) | (last & 255) << 8;
	struct sampling *sampling = map_lookup(&sampling_state, &zero);

	if (!sampling || bytes < 1 << SIZE_SHIFT)
		return;
	if (flight->kind == SEQUENTIAL && sector & ((1 << (BLOCK_SHIFT - SIZE_SHIFT)) - 1))
		span |= GOES_ON;
	if (last >> BLOCKS_PER_CHUNK_SHIFT == chunk)
		mark_if_kept(sampling, flight->disk, chunk, span, flight->op, chance);
	else
		mark_chunks(flight->disk, first + !!(span & GOES_ON), last, flight->op, chance);
}

#endif
