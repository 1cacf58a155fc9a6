// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/*
 * What the block layer does, and on whose behalf, counted where it happens: nothing is sent to user
 * space per request. A request is known by its pointer from its beginning to its end.
 *
 *   begin    who asked, for which file: in the context of whoever made the request
 *   issue    its final size and place: sequence, places, thread, file and cgroup are counted
 *   end      its latency
 */
#include "helpers.h"
#include "layout.h"

char terms[] SEC("license") = "Dual MIT/GPL";

/* Set by the loader before the programs are loaded. */
const volatile u64 dio_end = 0; /* address of the end of an iomap direct I/O, 0 if not told */
const volatile u64 disk_end = 0; /* the same for direct I/O on a block device, waited for */
const volatile u64 disk_end_async = 0; /* and not waited for */
const volatile u32 wants_layers = 0; /* whether I/O calls are timed, too */
const volatile u32 begins_at = 0; /* which event begins a request: 0 io_start, 1 insert, 2 issue */
const volatile u32 watches_all = 1; /* every disk, or only those in `disks` already */
const volatile u32 flag_direct = 0, flag_sync = 0, flag_dsync = 0; /* O_… of this architecture */
const volatile u32 page_bytes = 4096;

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

TABLE(followed, MAP_HASH, 65536, u32, u32); /* process -> 1, or 0 when it has ended */
TABLE(threads, MAP_HASH, 8192, u32, struct thread);
TABLE(groups, MAP_HASH, 128, char[16], u32);
TABLE(group_count, MAP_ARRAY, 1, u32, u32);
TABLE(disks, MAP_HASH, 32, u32, u32);
TABLE(disk_count, MAP_ARRAY, 1, u32, u32);
TABLE(slots, MAP_HASH, 512, struct slot_key, u32);
TABLE(slot_count, MAP_ARRAY, 1, u32, u32);
TABLE(slot_data, MAP_PERCPU_ARRAY, 256, u32, struct slot);
TABLE(arrivals, MAP_ARRAY, 256, u32, struct arrival);
TABLE(depths, MAP_ARRAY, 64, u32, struct depth);
TABLE(flights, MAP_HASH, 16384, u64, struct flight);
TABLE(owners, MAP_LRU_HASH, 65536, struct owner_key, struct owner);
TABLE(files, MAP_HASH, 4096, struct file_key, struct file_use);
TABLE(file_scratch, MAP_PERCPU_ARRAY, 1, u32, struct file_use);
TABLE(thread_scratch, MAP_PERCPU_ARRAY, 1, u32, struct thread);
TABLE(cgroups, MAP_HASH, 1024, u64, struct cgroup_use);
TABLE(chunks, MAP_HASH, 32768, struct chunk_key, struct chunk);
TABLE(uring_syncs, MAP_HASH, 8192, u64, u64);
TABLE(submits, MAP_HASH, 16384, u64, struct submitted);
TABLE(layer_data, MAP_PERCPU_ARRAY, 1, u32, struct layers);

#define COUNT(field, value)                                                 \
	do {                                                                \
		u32 _zero = 0;                                              \
		struct counts *_counts = map_lookup(&counts, &_zero);       \
		if (_counts)                                                \
			__sync_fetch_and_add(&_counts->field, (u64)(value)); \
	} while (0)

/* Position of the highest set bit; 0 for 0. */
inlined u32 top_bit(u64 value)
{
	u32 top = 0;

	if (value >> 32) { top += 32; value >>= 32; }
	if (value >> 16) { top += 16; value >>= 16; }
	if (value >> 8) { top += 8; value >>= 8; }
	if (value >> 4) { top += 4; value >>= 4; }
	if (value >> 2) { top += 2; value >>= 2; }
	return top + (u32)(value >> 1 & 1);
}

/* One by one below 64, then 32 buckets per octave. */
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
	do {                                                          \
		u32 _bucket = bucket_of(units, buckets);              \
		if (_bucket < (buckets))                              \
			(array)[_bucket] += 1;                        \
	} while (0)

/* ---- who ---- */

inlined u32 generation(void)
{
	u32 zero = 0;
	u32 *control_of = map_lookup(&control, &zero);

	return control_of ? *control_of : 0;
}

inlined int has_begun(void)
{
	u32 zero = 0;
	u32 *control_of = map_lookup(&control, &zero);

	return control_of && control_of[1];
}

inlined int is_followed(u32 tgid)
{
	u32 *alive = map_lookup(&followed, &tgid);

	return alive && *alive;
}

/* The number of a thread name; 0 is for all that find no number. */
static __attribute__((noinline)) u32 group_of(char *comm)
{
	char key[16];
	u32 zero = 0, number, *known, *count;

	if (!comm || read_kernel(key, sizeof(key), comm))
		return 0;
	known = map_lookup(&groups, key);
	if (known)
		return *known;
	count = map_lookup(&group_count, &zero);
	if (!count || *count >= GROUPS - 1)
		return 0;
	number = __sync_fetch_and_add(count, 1) + 1;
	if (number >= GROUPS || map_update(&groups, key, &number, NOEXIST))
		return 0;
	return number;
}

/* The running thread's entry, made if it is not there; NULL if the table is full. */
static __attribute__((noinline)) struct thread *this_thread(void)
{
	u64 id = current_pid_tgid();
	u32 tid = (u32)id, tgid = id >> 32, zero = 0, now = generation();
	struct thread *thread = map_lookup(&threads, &tid);

	if (!thread) {
		struct thread *fresh = map_lookup(&thread_scratch, &zero);
		struct task_struct *task = current_task();

		if (!fresh)
			return 0;
		__builtin_memset(fresh, 0, sizeof(*fresh));
		fresh->tid = tid;
		fresh->tgid = tgid;
		fresh->generation = now;
		fresh->of_program = is_followed(tgid);
		fresh->of_kernel = !!(FIELD(task, flags) & PF_KTHREAD);
		current_comm(fresh->comm, sizeof(fresh->comm));
		if (fresh->of_program)
			fresh->group = group_of(fresh->comm);
		map_update(&threads, &tid, fresh, NOEXIST);
		thread = map_lookup(&threads, &tid);
		if (!thread)
			COUNT(lost_threads, 1);
		return thread;
	}
	if (thread->generation != now) {
		/* Followed since, or another thread that got the number of one that has ended. */
		thread->generation = now;
		thread->of_program = is_followed(tgid);
		if (thread->of_program && !thread->group)
			thread->group = group_of(thread->comm);
	}
	return thread;
}

/* ---- where ---- */

inlined u32 disk_of(struct request *rq)
{
	struct gendisk *disk = rq->q->disk;

	/* A queue without a disk has commands of the driver only. */
	return disk ? disk->part0->bd_dev : 0;
}

/* The number of a watched disk, or -1. */
static __attribute__((noinline)) int disk_index(u32 disk)
{
	u32 zero = 0, number, *known, *count;

	if (!disk)
		return -1;
	known = map_lookup(&disks, &disk);
	if (known)
		return *known < DISKS ? (int)*known : -1;
	if (!watches_all)
		return -1;
	count = map_lookup(&disk_count, &zero);
	if (!count || *count >= DISKS)
		return -1;
	number = __sync_fetch_and_add(count, 1);
	if (number >= DISKS || map_update(&disks, &disk, &number, NOEXIST))
		return -1;
	return (int)number;
}

/* The place of a slot, or -1. */
static __attribute__((noinline)) int slot_of(u32 disk, u32 op, u32 class, u32 group)
{
	struct slot_key key = { .disk = disk, .op = op, .class = class, .group = group };
	u32 zero = 0, number, *known, *count;

	known = map_lookup(&slots, &key);
	if (known)
		return *known < SLOTS ? (int)*known : -1;
	count = map_lookup(&slot_count, &zero);
	if (!count || *count >= SLOTS)
		return -1;
	number = __sync_fetch_and_add(count, 1);
	if (number >= SLOTS || map_update(&slots, &key, &number, NOEXIST))
		return -1;
	return (int)number;
}

/* ---- which file ---- */

inlined u64 bio_address(struct bio *bio)
{
	u64 address = 0;

	/* The verifier lets nobody calculate with a pointer that it knows. */
	__builtin_memcpy(&address, &bio, sizeof(address));
	asm volatile("" : "+r"(address));
	return address;
}

/* The kernel's I/O call that a direct request belongs to; NULL if it does not tell. */
inlined struct kiocb *call_of_bio(struct bio *bio)
{
	u64 end = (u64)bio->bi_end_io;

	if (dio_end && end == dio_end)
		return FIELD((struct iomap_dio *)bio->bi_private, iocb);
	if (!HAS(struct blkdev_dio, bio))
		return 0;
	if (disk_end && end == disk_end)
		return FIELD((struct blkdev_dio *)bio->bi_private, iocb);
	if (disk_end_async && end == disk_end_async) {
		u64 dio = bio_address(bio) - OFFSET(struct blkdev_dio, bio);

		return FIELD((struct blkdev_dio *)dio, iocb);
	}
	return 0;
}

/* The inode whose data a request carries: by its direct I/O, or by the page cache. NULL if neither
 * tells; then `direct` says whether the memory is a program's own. */
inlined struct inode *inode_of(struct bio *bio, u8 *direct, u64 *call)
{
	struct kiocb *iocb = call_of_bio(bio);
	struct bio_vec *vector;
	struct page *page;
	unsigned long head, mapping;

	if (iocb) {
		struct file *file = FIELD(iocb, ki_filp);

		*direct = 1;
		*call = (u64)iocb;
		return file ? FIELD(file, f_inode) : 0;
	}
	vector = bio->bi_io_vec;
	page = vector ? (struct page *)FIELD(vector, bv_page) : 0;
	if (!page)
		return 0;
	if (HAS(struct page, compound_head)) {
		head = FIELD(page, compound_head);
		if (head & 1)
			page = (struct page *)(head - 1);
	}
	mapping = (unsigned long)FIELD(page, mapping);
	if (mapping & MAPPING_FLAGS) {
		*direct = 1;
		return 0;
	}
	return mapping ? FIELD((struct address_space *)mapping, host) : 0;
}

inlined struct dentry *dentry_of(struct inode *inode)
{
	struct hlist_node *link = FIELD(inode, i_dentry.first);
	u64 offset = 0;

	if (!link)
		return 0;
	if (HAS(struct dentry___union, d_u.d_alias))
		offset = OFFSET(struct dentry___union, d_u.d_alias);
	else if (HAS(struct dentry___plain, d_alias))
		offset = OFFSET(struct dentry___plain, d_alias);
	else
		return 0;
	return (struct dentry *)((u64)link - offset);
}

/* The names of a file, its own first; once per file. */
inlined void name_file(struct file_use *file, struct inode *inode)
{
	struct dentry *dentry = dentry_of(inode);

	for (int level = 0; level < NAMES && dentry; level++) {
		struct dentry *parent = FIELD(dentry, d_parent);

		if (parent == dentry) {
			file->is_whole = 1;
			break;
		}
		read_kernel_str(file->name[level], NAME_BYTES, FIELD(dentry, d_name.name));
		file->names = level + 1;
		dentry = parent;
	}
}

/* The entry of a file, made with its names if it is not there. */
static __attribute__((noinline)) int find_file(struct file_key *key, struct inode *inode)
{
	struct file_use *fresh;
	u32 zero = 0;

	if (!key)
		return 0;
	if (map_lookup(&files, key))
		return 1;
	fresh = map_lookup(&file_scratch, &zero);
	if (!fresh)
		return 0;
	__builtin_memset(fresh, 0, sizeof(*fresh));
	if (inode && key->kind == FILE_NAMED)
		name_file(fresh, inode);
	if (map_update(&files, key, fresh, NOEXIST) && !map_lookup(&files, key)) {
		COUNT(lost_files, 1);
		return 0;
	}
	return 1;
}

inlined u64 cgroup_of(struct bio *bio)
{
	struct blkcg_gq *group = bio->bi_blkg;

	return group ? group->blkcg->css.cgroup->kn->id : 0;
}

/* ---- pages that somebody made dirty ---- */

enum { STRETCH_PAGES_SHIFT = 8 };
#define WHOLE_FILE (~0ULL)

static __attribute__((noinline)) int remember_owner(u64 inode, u64 stretch)
{
	struct owner_key key = { .inode = inode, .stretch = stretch };
	struct thread *thread = this_thread();
	struct owner owner, *known;

	if (!thread || !thread->of_program)
		return 0;
	owner.tid = thread->tid;
	owner.group = thread->group;
	known = map_lookup(&owners, &key);
	if (!known || known->tid != owner.tid)
		map_update(&owners, &key, &owner, ANY);
	return 1;
}

inlined struct owner *owner_of(struct inode *inode, u64 stretch)
{
	struct owner_key key = { .inode = (u64)inode, .stretch = stretch };

	return map_lookup(&owners, &key);
}

inlined u64 stretch_of(struct bio *bio)
{
	struct bio_vec *vector = bio->bi_io_vec;
	struct folio *folio = vector ? (struct folio *)FIELD(vector, bv_page) : 0;
	unsigned long head;

	if (!folio)
		return 0;
	head = FIELD((struct page *)folio, compound_head);
	if (head & 1)
		folio = (struct folio *)(head - 1);
	return FIELD(folio, index) >> STRETCH_PAGES_SHIFT;
}

inlined int dirtied(struct folio *folio, struct address_space *mapping)
{
	struct inode *inode;
	u64 id = current_pid_tgid();

	if (!mapping || !folio || !is_followed(id >> 32))
		return 0;
	inode = FIELD(mapping, host);
	if (!inode)
		return 0;
	COUNT(dirtied_bytes, page_bytes);
	remember_owner((u64)inode, FIELD(folio, index) >> STRETCH_PAGES_SHIFT);
	return 0;
}

SEC("tp_btf/writeback_dirty_folio")
int dirty_folio(u64 *ctx)
{
	return dirtied((struct folio *)ctx[0], (struct address_space *)ctx[1]);
}

/* The same before 5.18. */
SEC("tp_btf/writeback_dirty_page")
int dirty_page(u64 *ctx)
{
	return dirtied((struct folio *)ctx[0], (struct address_space *)ctx[1]);
}

/* ---- depth ---- */

static __attribute__((noinline)) int change_depth(u32 index, u64 now, s64 by)
{
	struct depth *depth = map_lookup(&depths, &index);
	u64 since, level;
	s64 before;
	u32 bucket;

	if (!depth)
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

/* ---- sequence ---- */

/* The disk in the top bits: 2^40 sectors are 512 TiB. */
inlined u64 place_of(u32 disk_index, u64 sector)
{
	return (u64)(disk_index + 1) << 40 | (sector & ((1ULL << 40) - 1));
}

enum { APART, SEQUENTIAL, STRIDED };

/* Whether a request goes on where an earlier one of the thread ended. A stream that has gone on once
 * is kept; one that began only now may be pushed out by the next, so that random requests do not
 * hide the streams among them. */
inlined int sequence(struct thread *thread, u64 begin, u64 end)
{
	s64 distance = (s64)(begin - thread->last_sector);
	int kind = APART;

#pragma unroll
	for (int i = 0; i < STREAMS; i++) {
		if (kind == APART && thread->streams[i] == begin) {
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

/* ---- places ---- */

inlined u64 bits(u32 first, u32 last, u32 word)
{
	u32 low = word * 64, high = low + 63;

	if (first > high || last < low)
		return 0;
	low = first > low ? first - low : 0;
	high = last < high ? last & 63 : 63;
	return (~0ULL >> (63 - (high - low) & 63)) << low;
}

static __attribute__((noinline)) int mark_chunk(u32 disk, u64 number, u32 span, u32 op)
{
	struct chunk_key key = { .disk = disk, .number = number };
	u32 first = span & 255, last = span >> 8 & 255;
	struct chunk *chunk = map_lookup(&chunks, &key);

	if (!chunk) {
		static const struct chunk fresh;

		map_update(&chunks, &key, &fresh, NOEXIST);
		chunk = map_lookup(&chunks, &key);
		if (!chunk) {
			COUNT(lost_chunk_bytes, (u64)(last - first + 1) << BLOCK_SHIFT);
			return 0;
		}
	}
	if (op == OP_READ)
		__sync_fetch_and_add(&chunk->reads, 1);
	else
		__sync_fetch_and_add(&chunk->writes, 1);
#pragma unroll
	for (u32 word = 0; word < 4; word++) {
		u64 mask = bits(first, last, word), before;

		if (!mask)
			continue;
		if (op == OP_READ) {
			__sync_fetch_and_or(&chunk->read[word], mask);
			continue;
		}
		before = __sync_fetch_and_or(&chunk->written[word], mask);
		__sync_fetch_and_add(&chunk->block_writes, __builtin_popcountll(mask));
		if (before & mask)
			__sync_fetch_and_add(&chunk->overwrites,
					     __builtin_popcountll(before & mask));
	}
	return 0;
}

enum { BLOCKS_PER_CHUNK_SHIFT = CHUNK_SHIFT - BLOCK_SHIFT };

static __attribute__((noinline)) int mark_places(u32 disk, u64 sector, u32 bytes, u32 op)
{
	u64 first = sector >> (BLOCK_SHIFT - SIZE_SHIFT);
	u64 last = (sector + (bytes >> SIZE_SHIFT) - 1) >> (BLOCK_SHIFT - SIZE_SHIFT);

	if (bytes < 1 << SIZE_SHIFT)
		return 0;
	for (int i = 0; i < 9 && first <= last; i++) {
		u64 chunk = first >> BLOCKS_PER_CHUNK_SHIFT;
		u64 end = (chunk + 1) << BLOCKS_PER_CHUNK_SHIFT;
		u64 stop = last < end ? last : end - 1;

		mark_chunk(disk, chunk, (u32)(first & 255) | (u32)(stop & 255) << 8, op);
		first = end;
	}
	if (first <= last)
		COUNT(lost_chunk_bytes, (last - first + 1) << BLOCK_SHIFT);
	return 0;
}

/* ---- layers of an I/O call ---- */

static __attribute__((noinline)) int tally_layer(u32 layer, u64 ns)
{
	u32 zero = 0, bucket = bucket_of(ns >> TIME_SHIFT, TIME_BUCKETS);
	struct layers *layers = map_lookup(&layer_data, &zero);

	if (!layers || layer >= LAYERS || bucket >= TIME_BUCKETS)
		return 0;
	layers->calls[layer] += 1;
	layers->sum_ns[layer] += ns;
	layers->time[layer][bucket] += 1;
	return 0;
}

/* Its request has reached the block layer. Waiting for a limit lies before that. */
inlined void layer_of_begin(struct flight *flight, u64 now)
{
	u64 iocb = flight->iocb, since = 0;
	struct submitted *submitted = iocb ? map_lookup(&submits, &iocb) : 0;

	if (submitted) {
		since = submitted->submit_ns;
	} else {
		u32 tid = flight->tid;
		struct thread *thread = map_lookup(&threads, &tid);

		since = thread ? thread->call_ns : 0;
	}
	if (since && since <= now)
		tally_layer(LAYER_BEFORE, now - since);
}

inlined void layer_of_end(struct flight *flight, u64 now)
{
	u64 iocb = flight->iocb;
	struct submitted *submitted = iocb ? map_lookup(&submits, &iocb) : 0;

	if (submitted) {
		submitted->end_ns = now;
	} else {
		u32 tid = flight->tid;
		struct thread *thread = map_lookup(&threads, &tid);

		if (thread && !thread->posted_ns)
			thread->posted_ns = now;
	}
}

/* ---- a request's life ---- */

inlined u32 op_of(u32 flags, u32 bytes)
{
	u32 raw = flags & OP_MASK;

	if (raw == RAW_READ)
		return OP_READ;
	if (raw == RAW_WRITE) {
		u32 flush = ENUM_VALUE(enum req_flag_bits, __REQ_PREFLUSH);

		return !bytes && flags >> flush & 1 ? OP_FLUSH : OP_WRITE;
	}
	if (raw == RAW_FLUSH)
		return OP_FLUSH;
	if (raw == RAW_DISCARD || raw == RAW_SECURE_ERASE || raw == RAW_WRITE_ZEROES)
		return OP_DISCARD;
	return OP_OTHER;
}

inlined void tally_gap(u32 slot, u64 now)
{
	struct arrival *arrival = map_lookup(&arrivals, &slot);
	struct slot *data = map_lookup(&slot_data, &slot);
	u64 before, gap, us;

	if (!arrival || !data)
		return;
	before = __sync_lock_test_and_set(&arrival->last_ns, now);
	if (!data->first_ns)
		data->first_ns = now;
	if (!before || before > now)
		return;
	gap = now - before;
	us = gap / 1000;
	data->gaps += 1;
	data->gap_ns += gap;
	data->gap_us_squared += us * us;
	TALLY(data->gap, TIME_BUCKETS, gap >> TIME_SHIFT);
}

/* On whose behalf, and into which group its counts go. */
inlined void attribute(struct flight *flight, struct thread *thread, struct bio *bio, u32 flags,
		       struct inode *inode, u32 *group)
{
	u32 meta = ENUM_VALUE(enum req_flag_bits, __REQ_META);
	struct owner *owner = 0;

	if (thread && thread->of_program) {
		flight->class = CLASS_PROGRAM;
		flight->tid = thread->tid;
		*group = thread->group;
		return;
	}
	flight->class = CLASS_OTHER;
	if (thread)
		flight->tid = thread->tid;
	if (inode && flight->is_direct) {
		/* Held back by a limit, or done by a helper of the file system. */
		owner = thread && thread->of_kernel ? owner_of(inode, WHOLE_FILE) : 0;
		if (owner)
			flight->class = CLASS_PROGRAM;
	} else if (inode && flight->op == OP_WRITE) {
		owner = owner_of(inode, stretch_of(bio));
		if (owner)
			flight->class = CLASS_WRITE_BACK;
	}
	if (owner) {
		*group = owner->group;
		if (flight->class == CLASS_PROGRAM)
			flight->tid = owner->tid;
	} else if (thread && thread->of_kernel && flags >> meta & 1) {
		flight->class = CLASS_JOURNAL;
	}
}

/* The file of a request. Most are for the file of the thread's last one, whose key is kept. */
inlined int find_file_of(struct flight *flight, struct thread *thread, struct inode *inode)
{
	flight->file.kind = FILE_UNTOLD;
	flight->file.device = flight->disk;
	if (!inode)
		return find_file(&flight->file, 0);
	flight->file.inode = FIELD(inode, i_ino);
	if (thread && thread->inode == (u64)inode && thread->file.inode == flight->file.inode) {
		flight->file = thread->file;
		return 1;
	}
	if ((FIELD(inode, i_mode) & S_IFMT) == S_IFBLK) {
		flight->file.kind = FILE_OF_DEVICE;
		flight->file.device = FIELD(inode, i_rdev);
		flight->file.inode = 0;
	} else {
		struct super_block *sb = FIELD(inode, i_sb);

		flight->file.kind = FILE_NAMED;
		flight->file.device = sb ? FIELD(sb, s_dev) : 0;
	}
	if (!find_file(&flight->file, inode))
		return 0;
	if (flight->is_direct && flight->class == CLASS_PROGRAM)
		remember_owner((u64)inode, WHOLE_FILE);
	if (thread && flight->file.kind == FILE_NAMED) {
		thread->inode = (u64)inode;
		thread->file = flight->file;
	}
	return 1;
}

/* The slot of a request; that of the thread's last one, if it has the same name. */
inlined int slot_of_thread(struct thread *thread, struct flight *flight, u32 group)
{
	int slot;

	if (thread && thread->slot_key.disk == flight->disk && thread->slot_key.op == flight->op &&
	    thread->slot_key.class == flight->class && thread->slot_key.group == group)
		return thread->slot;
	slot = slot_of(flight->disk, flight->op, flight->class, group);
	if (thread && slot >= 0) {
		thread->slot_key.disk = flight->disk;
		thread->slot_key.op = flight->op;
		thread->slot_key.class = flight->class;
		thread->slot_key.group = group;
		thread->slot = slot;
	}
	return slot;
}

/* A request that begins anew has ended before, even if that was not seen: a kernel may run no
 * programs in interrupts that hit certain tasks (seen on a virtual machine: those of its first
 * process). Its size counts, its latency is not known. Without this the depth would drift. */
inlined void lapse(u64 key, u64 now)
{
	struct flight *former = map_lookup(&flights, &key);
	struct slot *slot;
	u32 index;

	if (!former)
		return;
	enter_depth(former, now, -1);
	COUNT(lost_ends, 1);
	index = former->slot;
	slot = map_lookup(&slot_data, &index);
	if (!slot)
		return;
	slot->requests += 1;
	slot->durable += former->is_durable;
	slot->bytes += former->bytes;
	if (former->is_direct)
		slot->direct_bytes += former->bytes;
	TALLY(slot->size, SIZE_BUCKETS, (u64)former->bytes >> SIZE_SHIFT);
}

static __attribute__((noinline)) int begin(struct request *rq, u64 now)
{
	struct flight flight = {};
	struct thread *thread;
	struct inode *inode = 0;
	struct bio *bio;
	u64 key = (u64)rq;
	u32 flags, bytes, group = 0;
	int index, slot;

	if (!rq || !has_begun())
		return 0;
	flight.disk = disk_of(rq);
	thread = this_thread();
	if (thread && thread->disk == flight.disk && flight.disk) {
		index = thread->disk_index;
	} else {
		index = disk_index(flight.disk);
		if (index < 0)
			return 0;
		if (thread) {
			thread->disk = flight.disk;
			thread->disk_index = index;
		}
	}
	flags = rq->cmd_flags;
	bytes = rq->__data_len;
	bio = rq->bio;
	flight.disk_index = index;
	flight.start_ns = now;
	flight.op = op_of(flags, bytes);
	flight.is_durable = flight.op == OP_WRITE &&
			    (flags >> ENUM_VALUE(enum req_flag_bits, __REQ_FUA) & 1 ||
			     flags >> ENUM_VALUE(enum req_flag_bits, __REQ_PREFLUSH) & 1);
	if (bio) {
		if (flight.op <= OP_WRITE && bytes)
			inode = inode_of(bio, &flight.is_direct, &flight.iocb);
		flight.cgroup = cgroup_of(bio);
	}
	attribute(&flight, thread, bio, flags, inode, &group);
	if (flight.class <= CLASS_WRITE_BACK && flight.op <= OP_WRITE && bytes)
		flight.has_file = find_file_of(&flight, thread, inode);
	slot = slot_of_thread(thread, &flight, group);
	if (slot < 0) {
		COUNT(lost_slots, 1);
		return 0;
	}
	flight.slot = slot;
	lapse(key, now);
	if (map_update(&flights, &key, &flight, ANY)) {
		COUNT(lost_flights, 1);
		return 0;
	}
	enter_depth(&flight, now, 1);
	tally_gap(slot, now);
	if (wants_layers && flight.class == CLASS_PROGRAM && flight.op <= OP_WRITE)
		layer_of_begin(&flight, now);
	return 1;
}

inlined void count_in_file(struct flight *flight, u32 bytes, int kind)
{
	struct file_key key = flight->file;
	struct file_use *file = map_lookup(&files, &key);

	if (!file)
		return;
	if (flight->op == OP_READ) {
		__sync_fetch_and_add(&file->reads, 1);
		__sync_fetch_and_add(&file->read_bytes, bytes);
	} else {
		__sync_fetch_and_add(&file->writes, 1);
		__sync_fetch_and_add(&file->write_bytes, bytes);
		if (flight->class == CLASS_WRITE_BACK)
			__sync_fetch_and_add(&file->write_back_bytes, bytes);
	}
	if (flight->is_direct)
		__sync_fetch_and_add(&file->direct_bytes, bytes);
	if (kind == SEQUENTIAL)
		__sync_fetch_and_add(&file->sequential, 1);
}

inlined void count_in_cgroup(struct flight *flight, u32 bytes)
{
	u64 key = flight->cgroup;
	struct cgroup_use *use = map_lookup(&cgroups, &key);

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
}

/* The request has its final size and its place in the order of requests. */
static __attribute__((noinline)) int count(struct flight *flight, u64 sector, u32 bytes)
{
	struct thread *thread;
	struct slot *slot;
	u32 index, tid;
	int kind = APART;

	if (!flight)
		return 0;
	flight->is_counted = 1;
	flight->bytes = bytes;
	tid = flight->tid;
	thread = map_lookup(&threads, &tid);
	if (thread && flight->op <= OP_WRITE && bytes) {
		u64 begin = place_of(flight->disk_index, sector);

		kind = sequence(thread, begin, begin + (bytes >> SIZE_SHIFT));
	}
	if (thread) {
		if (flight->op == OP_READ) {
			thread->reads += 1;
			thread->read_bytes += bytes;
		} else if (flight->op == OP_WRITE) {
			thread->writes += 1;
			thread->write_bytes += bytes;
		} else {
			thread->others += 1;
		}
		thread->sequential += kind == SEQUENTIAL;
	}
	index = flight->slot;
	slot = map_lookup(&slot_data, &index);
	if (slot) {
		slot->sequential += kind == SEQUENTIAL;
		slot->strided += kind == STRIDED;
	}
	if (flight->class <= CLASS_WRITE_BACK && flight->op <= OP_WRITE) {
		if (flight->has_file)
			count_in_file(flight, bytes, kind);
		mark_places(flight->disk, sector, bytes, flight->op);
		if (flight->op == OP_WRITE && !flight->is_direct)
			COUNT(written_back_bytes, bytes);
	}
	if (flight->cgroup)
		count_in_cgroup(flight, bytes);
	return 0;
}

SEC("tp_btf/block_io_start")
int io_start(u64 *ctx)
{
	if (begins_at == 0)
		begin((struct request *)ctx[0], ktime_ns());
	return 0;
}

SEC("tp_btf/block_rq_insert")
int rq_insert(u64 *ctx)
{
	u64 key = ctx[0];

	if (begins_at == 1 && !map_lookup(&flights, &key))
		begin((struct request *)ctx[0], ktime_ns());
	return 0;
}

/* A flush as the block layer sends it: nobody's in particular, and begun only now. */
inlined void begin_flush(struct request *rq, u64 key, u64 now)
{
	struct flight flight = { .start_ns = now, .issue_ns = now, .op = OP_FLUSH,
				 .class = CLASS_DEVICE_FLUSH, .is_counted = 1 };
	int index, slot;

	if (!has_begun())
		return;
	flight.disk = disk_of(rq);
	index = disk_index(flight.disk);
	slot = index < 0 ? -1 : slot_of(flight.disk, OP_FLUSH, CLASS_DEVICE_FLUSH, 0);
	if (slot < 0)
		return;
	flight.disk_index = index;
	flight.slot = slot;
	if (map_update(&flights, &key, &flight, ANY)) {
		COUNT(lost_flights, 1);
		return;
	}
	enter_depth(&flight, now, 1);
	tally_gap(slot, now);
}

SEC("tp_btf/block_rq_issue")
int rq_issue(u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	u64 key = (u64)rq, now = ktime_ns();
	struct flight *flight = map_lookup(&flights, &key);

	if (!flight) {
		if ((rq->cmd_flags & OP_MASK) == RAW_FLUSH) {
			begin_flush(rq, key, now);
			return 0;
		}
		if (begins_at == 0 || !begin(rq, now))
			return 0;
		flight = map_lookup(&flights, &key);
		if (!flight)
			return 0;
	}
	if (!flight->issue_ns)
		flight->issue_ns = now;
	if (!flight->is_counted)
		count(flight, rq->__sector, rq->__data_len);
	return 0;
}

/* Merged into another request, which carries its bytes from now on. */
SEC("tp_btf/block_rq_merge")
int rq_merge(u64 *ctx)
{
	u64 key = ctx[0];
	struct flight *flight = map_lookup(&flights, &key);
	u64 now;

	if (!flight)
		return 0;
	now = ktime_ns();
	enter_depth(flight, now, -1);
	add_area(flight, now - flight->start_ns);
	map_delete(&flights, &key);
	COUNT(merged_away, 1);
	return 0;
}

inlined void tally_end(struct flight *flight, u32 bytes, u64 now)
{
	u32 index = flight->slot;
	struct slot *slot = map_lookup(&slot_data, &index);
	u64 total = now - flight->start_ns;

	if (!slot)
		return;
	slot->requests += 1;
	slot->durable += flight->is_durable;
	slot->errors += flight->has_error;
	slot->last_ns = now;
	slot->total_ns += total;
	if (!slot->total_max_ns || total < slot->total_min_ns)
		slot->total_min_ns = total;
	if (total > slot->total_max_ns)
		slot->total_max_ns = total;
	TALLY(slot->total, TIME_BUCKETS, total >> TIME_SHIFT);
	if (flight->issue_ns) {
		u64 queued = flight->issue_ns - flight->start_ns;

		slot->queued_ns += queued;
		slot->device_ns += total - queued;
		TALLY(slot->queued, TIME_BUCKETS, queued >> TIME_SHIFT);
		TALLY(slot->device, TIME_BUCKETS, (total - queued) >> TIME_SHIFT);
	}
	TALLY(slot->size, SIZE_BUCKETS, (u64)bytes >> SIZE_SHIFT);
}

SEC("tp_btf/block_rq_complete")
int rq_complete(u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];
	u64 key = (u64)rq, now;
	struct flight *flight = map_lookup(&flights, &key);
	struct slot *slot;
	u32 bytes = (u32)ctx[2], left, index;

	if (!flight) {
		if (has_begun())
			COUNT(unknown_ends, 1);
		return 0;
	}
	if ((u8)ctx[1])
		flight->has_error = 1;
	left = rq->__data_len;
	index = flight->slot;
	slot = map_lookup(&slot_data, &index);
	if (slot) {
		slot->bytes += bytes;
		if (flight->is_direct)
			slot->direct_bytes += bytes;
	}
	flight->done_bytes += bytes;
	if (bytes < left)
		return 0;
	now = ktime_ns();
	if (!flight->is_counted)
		count(flight, rq->__sector, bytes);
	tally_end(flight, flight->done_bytes, now);
	if (wants_layers && flight->class == CLASS_PROGRAM)
		layer_of_end(flight, now);
	enter_depth(flight, now, -1);
	add_area(flight, now - flight->start_ns);
	map_delete(&flights, &key);
	return 0;
}

/* ---- processes ---- */

SEC("tp_btf/sched_process_fork")
int process_fork(u64 *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0];
	struct task_struct *child = (struct task_struct *)ctx[1];
	u32 tgid = FIELD(child, tgid), pid = FIELD(child, pid), one = 1;
	struct thread *former = map_lookup(&threads, &pid);

	if (former && former->ended_ns) {
		former->ended_ns = 0;
		former->generation = ~0u;
	}
	if (tgid != pid)
		return 0;
	if (is_followed(FIELD(parent, tgid))) {
		if (map_update(&followed, &tgid, &one, ANY))
			COUNT(lost_threads, 1);
	} else if (map_lookup(&followed, &tgid)) {
		map_delete(&followed, &tgid);
	}
	return 0;
}

SEC("tp_btf/task_rename")
int task_rename(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 tid = FIELD(task, pid);
	struct thread *thread = map_lookup(&threads, &tid);

	if (!thread || !thread->of_program)
		return 0;
	__builtin_memset(thread->comm, 0, sizeof(thread->comm));
	read_kernel_str(thread->comm, sizeof(thread->comm), (void *)ctx[1]);
	thread->group = group_of(thread->comm);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int process_exit(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 tgid = FIELD(task, tgid), tid = FIELD(task, pid), *alive;
	struct signal_struct *signal;
	struct thread *thread;

	alive = map_lookup(&followed, &tgid);
	if (!alive)
		return 0;
	COUNT(ended_threads, 1);
	if (HAS(struct task_struct, ioac) && HAS(struct task_io_accounting, rchar)) {
		COUNT(calls_read, FIELD(task, ioac.syscr));
		COUNT(calls_write, FIELD(task, ioac.syscw));
		COUNT(bytes_read, FIELD(task, ioac.rchar));
		COUNT(bytes_written, FIELD(task, ioac.wchar));
		COUNT(storage_read, FIELD(task, ioac.read_bytes));
		COUNT(storage_written, FIELD(task, ioac.write_bytes));
		COUNT(cancelled, FIELD(task, ioac.cancelled_write_bytes));
	}
	if (HAS(struct task_struct, delays)) {
		struct task_delay_info *delays = FIELD(task, delays);

		if (delays)
			COUNT(io_delay_ns, FIELD(delays, blkio_delay));
	}
	thread = map_lookup(&threads, &tid);
	if (thread)
		thread->ended_ns = ktime_ns();
	signal = FIELD(task, signal);
	if (signal && FIELD(signal, live.counter) == 0)
		*alive = 0;
	return 0;
}

/* ---- calls that make data durable ---- */

/*
 * Every system call passes here; those that matter are marked in a table of constants, by their
 * numbers on this architecture. Typed tracepoints need no mounted tracefs and no more rights than
 * the others do.
 */
const volatile u8 call_of[512] = {};

enum { CALL_OPEN = 16, CALL_OPENAT, CALL_OPENAT2, CALL_CREAT, CALL_FCNTL, CALL_IO = 32 };

inlined u64 argument(struct pt_regs *regs, u32 number)
{
	if (HAS(struct pt_regs___x86, di)) {
		struct pt_regs___x86 *x86 = (struct pt_regs___x86 *)regs;

		return number == 1 ? x86->si : x86->dx;
	}
	if (HAS(struct pt_regs___arm64, regs))
		return ((struct pt_regs___arm64 *)regs)->regs[number];
	return 0;
}

inlined s64 call_number(struct pt_regs *regs)
{
	if (HAS(struct pt_regs___x86, orig_ax))
		return ((struct pt_regs___x86 *)regs)->orig_ax;
	if (HAS(struct pt_regs___arm64, syscallno))
		return ((struct pt_regs___arm64 *)regs)->syscallno;
	return -1;
}

static __attribute__((noinline)) int sync_begins(void)
{
	struct thread *thread;

	if (!is_followed(current_pid_tgid() >> 32))
		return 0;
	thread = this_thread();
	if (thread && has_begun())
		thread->sync_since_ns = ktime_ns();
	return 0;
}

static __attribute__((noinline)) int tally_sync(u32 kind, u32 group, u64 ns, u32 failed)
{
	int index = slot_of(0, SYNC + kind, CLASS_PROGRAM, group);
	u32 place = index;
	struct slot *slot = index < 0 ? 0 : map_lookup(&slot_data, &place);

	if (!slot) {
		COUNT(lost_syncs, 1);
		return 0;
	}
	slot->requests += 1;
	slot->errors += !!failed;
	slot->total_ns += ns;
	if (!slot->total_max_ns || ns < slot->total_min_ns)
		slot->total_min_ns = ns;
	if (ns > slot->total_max_ns)
		slot->total_max_ns = ns;
	TALLY(slot->total, TIME_BUCKETS, ns >> TIME_SHIFT);
	return 0;
}

static __attribute__((noinline)) int sync_ends(u32 kind, s64 result)
{
	struct thread *thread;
	u64 since, now;
	u32 tid = (u32)current_pid_tgid();

	thread = map_lookup(&threads, &tid);
	if (!thread || !thread->sync_since_ns)
		return 0;
	now = ktime_ns();
	since = thread->sync_since_ns;
	thread->sync_since_ns = 0;
	thread->syncs += 1;
	thread->sync_ns += now - since;
	tally_sync(kind, thread->group, now - since, result < 0);
	return 0;
}

enum { URING_FSYNC = 3, URING_SYNC_FILE_RANGE = 8 };

static __attribute__((noinline)) int layer_of_submit(u64 key)
{
	struct submitted submitted = {};
	struct thread *thread;

	if (!has_begun() || !is_followed(current_pid_tgid() >> 32))
		return 0;
	thread = this_thread();
	submitted.submit_ns = ktime_ns();
	if (thread && thread->call_ns)
		tally_layer(LAYER_SUBMISSION, submitted.submit_ns - thread->call_ns);
	map_update(&submits, &key, &submitted, ANY);
	return 0;
}

static __attribute__((noinline)) int layer_of_completion(u64 key)
{
	struct submitted *submitted = map_lookup(&submits, &key);
	struct thread *thread;
	u64 now;

	if (!submitted)
		return 0;
	now = ktime_ns();
	if (submitted->end_ns)
		tally_layer(LAYER_COMPLETION, now - submitted->end_ns);
	map_delete(&submits, &key);
	thread = this_thread();
	if (thread && !thread->posted_ns)
		thread->posted_ns = now;
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int uring_submit(u64 *ctx)
{
	struct io_kiocb *request = (struct io_kiocb *)ctx[0];
	u8 opcode = request->opcode;
	u64 key = ctx[0], now;

	if (wants_layers && opcode != URING_FSYNC && opcode != URING_SYNC_FILE_RANGE) {
		layer_of_submit(key);
		return 0;
	}
	if (opcode != URING_FSYNC && opcode != URING_SYNC_FILE_RANGE)
		return 0;
	if (!is_followed(current_pid_tgid() >> 32) || !has_begun())
		return 0;
	now = ktime_ns();
	if (map_update(&uring_syncs, &key, &now, ANY))
		COUNT(lost_syncs, 1);
	return 0;
}

SEC("tp_btf/io_uring_complete")
int uring_complete(u64 *ctx)
{
	u64 key = ctx[1], now;
	u64 *since = map_lookup(&uring_syncs, &key);
	struct io_kiocb *request = (struct io_kiocb *)key;
	struct thread *thread;
	s32 result = 0;

	if (!since) {
		if (wants_layers)
			layer_of_completion(key);
		return 0;
	}
	now = ktime_ns();
	/* In the submitter, in a worker of it, or in its polling thread: all of one process. */
	thread = this_thread();
	if (HAS(struct io_kiocb, cqe.res))
		result = FIELD(request, cqe.res);
	if (thread) {
		thread->syncs += 1;
		thread->sync_ns += now - *since;
	}
	tally_sync(URING_SYNC, thread ? thread->group : 0, now - *since, result < 0);
	map_delete(&uring_syncs, &key);
	return 0;
}

/* ---- how files are opened ---- */

static __attribute__((noinline)) int opened(u32 flags, u32 is_open)
{
	if (!is_followed(current_pid_tgid() >> 32) || !has_begun())
		return 0;
	if (is_open)
		COUNT(opens, 1);
	if (flags & flag_direct)
		COUNT(open_direct, 1);
	/* O_SYNC contains O_DSYNC. */
	if ((flags & flag_sync) == flag_sync)
		COUNT(open_sync, 1);
	else if (flags & flag_dsync)
		COUNT(open_dsync, 1);
	return 0;
}

enum { MS_SYNC = 4, F_SETFL = 4 };

/* A call that hands over or fetches I/O begins, and returns. */
static __attribute__((noinline)) int layer_of_call(void)
{
	struct thread *thread;

	if (!has_begun() || !is_followed(current_pid_tgid() >> 32))
		return 0;
	thread = this_thread();
	if (thread)
		thread->call_ns = ktime_ns();
	return 0;
}

static __attribute__((noinline)) int layer_of_return(void)
{
	u32 tid = (u32)current_pid_tgid();
	struct thread *thread = map_lookup(&threads, &tid);

	if (!thread || !thread->posted_ns)
		return 0;
	tally_layer(LAYER_REAPING, ktime_ns() - thread->posted_ns);
	thread->posted_ns = 0;
	return 0;
}

SEC("tp_btf/sys_enter")
int call_enter(u64 *ctx)
{
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	u64 number = ctx[1];
	u32 call;

	if (number >= sizeof(call_of) || !call_of[number])
		return 0;
	call = call_of[number];
	if (call == CALL_IO) {
		layer_of_call();
	} else if (call < CALL_OPEN) {
		if (call != MSYNC + 1 || argument(regs, 2) & MS_SYNC)
			sync_begins();
	} else if (call == CALL_OPENAT2) {
		u64 flags = 0;

		read_user(&flags, sizeof(flags), (void *)argument(regs, 2));
		opened(flags, 1);
	} else if (call == CALL_FCNTL) {
		if (argument(regs, 1) == F_SETFL)
			opened(argument(regs, 2), 0);
	} else if (call == CALL_CREAT) {
		opened(0, 1);
	} else {
		opened(argument(regs, call == CALL_OPEN ? 1 : 2), 1);
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int call_exit(u64 *ctx)
{
	u64 number = call_number((struct pt_regs *)ctx[0]);

	if (number >= sizeof(call_of) || !call_of[number])
		return 0;
	if (call_of[number] < CALL_OPEN)
		sync_ends(call_of[number] - 1, ctx[1]);
	else if (call_of[number] == CALL_IO)
		layer_of_return();
	return 0;
}
