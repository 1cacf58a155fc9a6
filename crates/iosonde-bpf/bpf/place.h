/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Where on the disk: sequence within a thread's streams, and chunks that were touched. */
#ifndef PLACE_H
#define PLACE_H

/* The disk in the top bits: 2^40 sectors are 512 TiB. */
inlined u64 place_of(u32 disk_index, u64 sector)
{
	return (u64)(disk_index + 1) << 40 | (sector & ((1ULL << 40) - 1));
}

enum { APART, SEQUENTIAL, STRIDED };
enum { LAST_PAGE = 8 }; /* sectors */

/* Whether a request goes on where an earlier one of the thread ended, or in its last page, which an
 * append writes again; a stream that has gone on once may stay there. It is kept; one that began only
 * now may be pushed out by the next, so that random requests do not hide the streams among them. */
inlined int sequence(struct thread *thread, u64 begin, u64 end)
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

/* Evenly spread bits of a chunk's number. `src/layout.rs` says the same. */
inlined u64 hash_of(u64 number)
{
	number = (number + 1) * 0x9e3779b97f4a7c15ULL;
	number ^= number >> 32;
	number *= 0xd6e8feb86659fd93ULL;
	return number ^ number >> 32;
}

/* Every 16th block of a chunk, from one that its hash chooses; each block before that. */
inlined u64 kept_blocks(u64 hash, u32 shift)
{
	return shift ? 0x0001000100010001ULL << (hash >> (64 - BLOCK_SAMPLE_SHIFT)) : ~0ULL;
}

/* A new chunk. When there are many, only those are kept whose hash ends in one more zero; user space
 * takes out the others. */
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

/* Of the requests one in 16 is counted where one block in 16 is kept: by chance, not by its first block,
 * which in many loads is a multiple of 16. */
inlined u32 is_sampled(u64 chance)
{
	return !(chance * 0x9e3779b97f4a7c15ULL >> (64 - BLOCK_SAMPLE_SHIFT));
}

/* Whether a chunk is left out, or all of its blocks from the first to the last that are touched, as of most
 * small requests. */
inlined int is_left_out(struct sampling *sampling, u64 hash, u32 first, u32 last, u64 chance)
{
	const u32 stretch = 1 << BLOCK_SAMPLE_SHIFT;
	u32 kept = hash >> (64 - BLOCK_SAMPLE_SHIFT);

	if (hash & ((1ULL << (sampling->chunk_shift & 31)) - 1))
		return 1;
	return sampling->block_shift && !is_sampled(chance) && last - first < stretch - 1 &&
	       ((kept - first) & (stretch - 1)) > last - first;
}

apart int mark_chunk(u32 disk, u64 number, u32 span, u32 op, u64 chance)
{
	struct chunk_key key = { .disk = disk, .number = number };
	u32 first = span & 255, last = span >> 8 & 255, zero = 0, shift, counted;
	struct sampling *sampling = map_lookup(&sampling_state, &zero);
	u64 hash = hash_of(number), kept;
	struct chunk *chunk;

	if (!sampling || is_left_out(sampling, hash, first, last, chance))
		return 0;
	shift = sampling->block_shift;
	counted = !shift || is_sampled(chance);
	kept = kept_blocks(hash, shift);
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
	/* Each counts for those that are left out, too. */
	if (counted)
		__sync_fetch_and_add(op == OP_READ ? &chunk->reads : &chunk->writes, 1 << shift);
#pragma unroll
	for (u32 word = 0; word < 4; word++) {
		u64 mask = bits(first, last, word) & kept, before;

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

apart int mark_chunks(u32 disk, u64 first, u64 last, u32 op, u64 chance)
{
	for (int i = 0; i < 9 && first <= last; i++) {
		u64 chunk = first >> BLOCKS_PER_CHUNK_SHIFT;
		u64 end = (chunk + 1) << BLOCKS_PER_CHUNK_SHIFT;
		u64 stop = last < end ? last : end - 1;

		mark_chunk(disk, chunk, (u32)(first & 255) | (u32)(stop & 255) << 8, op, chance);
		first = end;
	}
	if (first <= last)
		COUNT(lost_chunk_bytes, (last - first + 1) << BLOCK_SHIFT);
	return 0;
}

/* The blocks of a request are touched. */
inlined void mark_places(u32 disk, u64 sector, u32 bytes, u32 op, u64 chance)
{
	u64 first = sector >> (BLOCK_SHIFT - SIZE_SHIFT);
	u64 last = (sector + (bytes >> SIZE_SHIFT) - 1) >> (BLOCK_SHIFT - SIZE_SHIFT);
	u64 chunk = first >> BLOCKS_PER_CHUNK_SHIFT;
	u32 zero = 0;
	struct sampling *sampling = map_lookup(&sampling_state, &zero);

	if (!sampling || bytes < 1 << SIZE_SHIFT)
		return;
	if (last >> BLOCKS_PER_CHUNK_SHIFT != chunk)
		mark_chunks(disk, first, last, op, chance);
	else if (!is_left_out(sampling, hash_of(chunk), first & 255, last & 255, chance))
		mark_chunk(disk, chunk, (u32)(first & 255) | (u32)(last & 255) << 8, op, chance);
}

#endif
