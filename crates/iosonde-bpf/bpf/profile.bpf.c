// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/*
 * Counts the requests of the block layer, and on whose behalf they are made, in the kernel: nothing is
 * sent to user space per request. A request is identified by its pointer from its beginning to its end.
 *
 *   begin    the thread and the file, in the context of the thread that makes the request
 *   issue    its final size and position: sequence, chunks, thread and file are counted
 *   end      its latency, by slot, file and cgroup
 */
#include "maps.h"
#include "who.h"
#include "file.h"
#include "dirty.h"
#include "depth.h"
#include "phase.h"
#include "flag.h"
#include "times.h"
#include "flight.h"
#include "place.h"
#include "layers.h"

char terms[] SEC("license") = "Dual MIT/GPL";

/* The request of an event, as an untrusted pointer. For each pointer that is read through a trusted one,
 * the verifier searches all types of the kernel by name. */
inlined struct request *request_of(u64 *ctx)
{
	struct request *rq = (struct request *)ctx[0];

	return has_cast ? cast_to(rq, TYPE_OF(rq)) : rq;
}

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

/* A gap continues a burst or ends it. If two CPUs count at once, one gap may be lost. */
inlined void count_burst(struct arrival *arrival, struct slot *data, u64 gap)
{
	u32 bucket;

	if (gap < 1 << BURST_SHIFT) {
		arrival->burst += 1;
		return;
	}
	bucket = top_bit(arrival->burst + 1);
	data->bursts[bucket < BURST_BUCKETS ? bucket : BURST_BUCKETS - 1] += 1;
	arrival->burst = 0;
}

inlined void tally_gap(u32 slot, u64 now)
{
	struct arrival *arrival = map_lookup(&arrivals, &slot);
	struct slot *data = map_lookup(&slot_data, &slot);
	u64 before, gap, us;

	if (!HAS_PART(GAPS))
		return;
	if (!arrival || !data)
		return;
	/* Two CPUs at once may count the same gap: too rare to matter. */
	before = *(volatile u64 *)&arrival->last_ns;
	*(volatile u64 *)&arrival->last_ns = now;
	if (!data->first_ns)
		data->first_ns = now;
	if (!before || before > now)
		return;
	gap = now - before;
	/* Limited to an hour, whose square fits. A longer gap is not within one load. */
	us = gap < 3600000000000ULL ? gap / 1000 : 3600000000ULL;
	count_burst(arrival, data, gap);
	data->gaps += 1;
	data->gap_ns += gap;
	data->gap_us_squared += us * us;
	TALLY(data->gap, TIME_BUCKETS, gap >> TIME_SHIFT);
}

/* Sets on whose behalf a request is made, and the group in which it is counted. */
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
	if (flight->is_direct && bio && thread && thread->of_kernel) {
		/* Delayed by I/O throttling, or submitted by a worker of the file system. */
		struct thread *waiter = waiter_of(bio);

		if (waiter && waiter->of_program) {
			flight->class = CLASS_PROGRAM;
			flight->tid = waiter->tid;
			*group = waiter->group;
			return;
		}
		owner = waiter || !inode ? 0 : owner_of((u64)inode, WHOLE_FILE);
		if (owner)
			flight->class = CLASS_PROGRAM;
	} else if (inode && !flight->is_direct && flight->op == OP_WRITE) {
		owner = owner_of((u64)inode, stretch_of(bio));
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

/* The key of a file, except a regular file's inode number and generation. */
inlined void name_inode(struct file_key *key, struct inode *inode)
{
	struct super_block *sb;

	if ((FIELD(inode, i_mode) & S_IFMT) == S_IFBLK) {
		key->kind = FILE_OF_DEVICE;
		key->device = FIELD(inode, i_rdev);
		key->inode = 0;
		key->generation = 0;
		return;
	}
	sb = FIELD(inode, i_sb);
	key->kind = FILE_NAMED;
	key->device = sb ? FIELD(sb, s_dev) : 0;
}

/* The file of a request. Most requests are for the file of the thread's last one, whose index is kept. */
inlined void find_file_of(struct flight *flight, struct thread *thread, struct inode *inode)
{
	struct file_key key = { .kind = FILE_UNTOLD, .device = flight->disk };

	if (!inode) {
		/* The kernel's own memory holds the metadata and the log of a file system. */
		if (!flight->is_direct)
			key.kind = FILE_OF_DEVICE;
		flight->has_file = 1 + key.kind;
		find_file(&key, 0, &flight->file);
		return;
	}
	key.inode = READ(inode, i_ino);
	key.generation = READ(inode, i_generation);
	if (thread && thread->inode == (u64)inode && thread->file.inode == key.inode &&
	    thread->file.generation == key.generation) {
		flight->has_file = 1 + thread->file.kind;
		flight->file = thread->file_place;
		return;
	}
	if (thread) {
		thread->inode = (u64)inode;
		thread->file = key;
	}
	name_inode(&key, inode);
	find_file(&key, number_of(inode), &flight->file);
	flight->has_file = 1 + key.kind;
	if (flight->is_direct && flight->class == CLASS_PROGRAM)
		remember_owner((u64)inode, WHOLE_FILE, 0);
	if (thread) {
		thread->file.kind = key.kind;
		thread->file_place = flight->file;
	}
}

/* The slot of a request, reused from the thread's last one if that has the same key. */
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

/* Counts pages of files that have reached the device, without metadata: it is not in `dirtied_bytes`. */
inlined void count_written(struct flight *flight, u32 bytes)
{
	if (flight->class <= CLASS_WRITE_BACK && flight->op == OP_WRITE && !flight->is_direct &&
	    flight->has_file == 1 + FILE_NAMED)
		COUNT(written_back_bytes, bytes);
}

/* Counts the size of a request whose end was not seen. Its latency is unknown. */
apart int count_lapsed(struct flight *flight, u64 now)
{
	struct slot *slot;
	u32 index;

	if (!flight)
		return 0;
	enter_depth(flight, now, -1);
	enter_phase(flight, now, -1);
	COUNT(lost_ends, 1);
	tally_cgroup(flight, flight->bytes, 0);
	count_written(flight, flight->bytes);
	index = flight->slot;
	slot = map_lookup(&slot_data, &index);
	if (!slot)
		return 0;
	slot->requests += 1;
	slot->durable += flight->is_durable;
	slot->sequential += flight->kind == SEQUENTIAL;
	slot->strided += flight->kind == STRIDED;
	slot->bytes += flight->bytes;
	if (flight->is_direct)
		slot->direct_bytes += flight->bytes;
	TALLY(slot->size, SIZE_BUCKETS, (u64)flight->bytes >> SIZE_SHIFT);
	return 0;
}

/* A request that begins again has ended before, even if its end was not seen: a kernel may run no
 * programs in interrupts of certain tasks (seen on a virtual machine, in its first process). Without
 * this the depth would drift. */
inlined void lapse(u64 key, u64 now)
{
	struct flight *former = flight_of(key);

	if (!former)
		return;
	count_lapsed(former, now);
	drop_flight(key, former);
}

inlined int begin(struct request *rq, u64 now)
{
	struct flight flight = {};
	struct thread *thread;
	struct inode *inode = 0;
	struct bio *bio;
	u64 key = (u64)rq, call = 0, cgroup = 0;
	u32 flags, bytes, group = 0;
	int index, slot;

	if (!has_begun())
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
	fetch_flight_place(key);
	fetch_depth(index);
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
			inode = inode_of(bio, &flight.is_direct, &call);
		cgroup = HAS_PART(CGROUPS) ? cgroup_of(bio) : 0;
	}
	attribute(&flight, thread, bio, flags, inode, &group);
	if (HAS_PART(FILES) && flight.class <= CLASS_WRITE_BACK && flight.op <= OP_WRITE && bytes)
		find_file_of(&flight, thread, inode);
	slot = slot_of_thread(thread, &flight, group);
	if (slot < 0) {
		COUNT(lost_slots, 1);
		return 0;
	}
	flight.slot = slot;
	flight.cgroup_place = cgroup_of_thread(thread, cgroup);
	flight.phase = phase_of_request(&flight, flags);
	flight.flag = flag_of(&flight, flags);
	lapse(key, now);
	if (keep_flight(key, &flight)) {
		COUNT(lost_flights, 1);
		return 0;
	}
	if (cgroup && !flight.cgroup_place)
		COUNT(lost_cgroups, 1);
	enter_depth(&flight, now, 1);
	enter_phase(&flight, now, 1);
	tally_gap(slot, now);
	if (wants_layers && flight.class == CLASS_PROGRAM && flight.op <= OP_WRITE)
		layer_of_begin(&flight, call, now);
	return 1;
}

inlined void count_in_file(struct flight *flight, struct file_place *at, u32 bytes, u32 is_first)
{
	u32 place = at->place;
	struct file_use *file = map_lookup(&file_data, &place);

	if (file && (u32)file->since_ns != at->since) {
		/* User space has emptied the entry meanwhile. */
		place = 0;
		file = map_lookup(&file_data, &place);
	}
	if (!file)
		return;
	if (flight->op == OP_READ) {
		__sync_fetch_and_add(&file->reads, is_first);
		__sync_fetch_and_add(&file->read_bytes[flight->is_direct & 1], bytes);
	} else {
		__sync_fetch_and_add(&file->writes, is_first);
		__sync_fetch_and_add(&file->write_bytes[flight->is_direct & 1], bytes);
		if (flight->class == CLASS_WRITE_BACK)
			__sync_fetch_and_add(&file->write_back_bytes, bytes);
	}
	if (flight->kind == SEQUENTIAL && is_first)
		__sync_fetch_and_add(&file->sequential, 1);
}

/* Bios of a request that are examined at most; none of a request that was never issued. */
enum { BIOS = 256 };

/* Progress in counting a request of several bios, its parts. */
struct parts {
	struct flight flight;
	struct file_place place;
	u64 bio;
	u64 inode; /* of the previous part */
	u32 bytes; /* not counted yet */
	u32 number; /* of parts counted */
};

/* Counts the next part. */
apart int count_part(struct parts *parts)
{
	struct bio *bio;
	struct inode *inode;
	struct bio_vec *vector;
	struct page *page;
	unsigned long word;
	u32 part, is_first;

	if (!parts || !parts->bio)
		return 0;
	bio = (struct bio *)parts->bio;
	part = FIELD(bio, bi_iter.bi_size);
	if (part > parts->bytes)
		part = parts->bytes;
	vector = FIELD(bio, bi_io_vec);
	page = FIELD(vector, bv_page);
	if (HAS(struct page, compound_head)) {
		word = FIELD(page, compound_head);
		if (word & 1)
			page = (struct page *)(word - 1);
	}
	word = (unsigned long)FIELD(page, mapping);
	inode = word & MAPPING_FLAGS ? 0 : FIELD((struct address_space *)word, host);
	is_first = !parts->number || (u64)inode != parts->inode;
	if (inode && (u64)inode != parts->inode) {
		struct file_key key = { .inode = FIELD(inode, i_ino),
					.generation = FIELD(inode, i_generation) };

		name_inode(&key, inode);
		find_file(&key, (u64)inode, &parts->place);
	}
	count_in_file(&parts->flight, &parts->place, part, is_first);
	parts->inode = (u64)inode;
	parts->bytes -= part;
	parts->number += 1;
	parts->bio = (u64)FIELD(bio, bi_next);
	return 0;
}

/* The bios merged into one request may belong to several files. */
static __attribute__((noinline)) int count_parts(struct flight *flight, struct request *rq, u32 bytes,
						 u32 bios)
{
	struct parts parts = { .flight = *flight, .place = flight->file, .bytes = bytes };

	parts.bio = bio_address(rq->bio);
	for (u32 i = 0; i < bios && parts.bio && parts.bytes; i++)
		count_part(&parts);
	if (parts.bytes)
		count_in_file(flight, &parts.place, parts.bytes, 0);
	return 0;
}

inlined void count_in_files(struct flight *flight, struct request *rq, u32 bytes, u32 bios)
{
	struct bio *bio = rq->bio;

	if (flight->is_direct || !bio || !bio->bi_next)
		count_in_file(flight, &flight->file, bytes, 1);
	else
		count_parts(flight, rq, bytes, bios);
}

/* Counts a request when its size and its place in the order of requests are final. */
inlined void count(struct flight *flight, struct request *rq, u32 bytes, u32 bios)
{
	struct thread *thread;
	u64 sector = rq->__sector;
	int kind = APART;

	flight->is_counted = 1;
	flight->bytes = bytes;
	thread = thread_of(flight->tid);
	if (HAS_PART(SEQUENCE) && thread && flight->op <= OP_WRITE && bytes) {
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
	flight->kind = kind;
	if (flight->class <= CLASS_WRITE_BACK && flight->op <= OP_WRITE) {
		if (flight->has_file)
			count_in_files(flight, rq, bytes, bios);
		if (HAS_PART(PLACES))
			mark_places(flight, sector, bytes);
	}
}

SEC("tp_btf/block_io_start")
int io_start(u64 *ctx)
{
	if (begins_at == 0)
		begin(request_of(ctx), ktime_ns());
	return 0;
}

SEC("tp_btf/block_rq_insert")
int rq_insert(u64 *ctx)
{
	if (begins_at == 1)
		begin(request_of(ctx), ktime_ns());
	return 0;
}

/* A flush that the block layer sends. It belongs to no thread, and begins only when it is issued. */
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
	flight.phase = phase_of_request(&flight, 0);
	if (keep_flight(key, &flight)) {
		COUNT(lost_flights, 1);
		return;
	}
	enter_depth(&flight, now, 1);
	enter_phase(&flight, now, 1);
	tally_gap(slot, now);
}

SEC("tp_btf/block_rq_issue")
int rq_issue(u64 *ctx)
{
	struct request *rq = request_of(ctx);
	u64 key = (u64)rq, now = ktime_ns();
	struct flight *flight = flight_of(key);

	/* A queue has one flush request, which is reused. */
	if ((rq->cmd_flags & OP_MASK) == RAW_FLUSH) {
		lapse(key, now);
		begin_flush(rq, key, now);
		return 0;
	}
	if (!flight) {
		if (begins_at == 0 || !begin(rq, now))
			return 0;
		flight = flight_of(key);
		if (!flight)
			return 0;
	}
	if (!flight->issue_ns)
		flight->issue_ns = now;
	if (!flight->is_counted)
		count(flight, rq, rq->__data_len, BIOS);
	return 0;
}

/* The request was merged into another, which carries its bytes from now on. */
SEC("tp_btf/block_rq_merge")
int rq_merge(u64 *ctx)
{
	u64 key = ctx[0];
	struct flight *flight = flight_of(key);
	u64 now;

	if (!flight)
		return 0;
	now = ktime_ns();
	enter_depth(flight, now, -1);
	enter_phase(flight, now, -1);
	add_merged(flight, now - flight->start_ns);
	drop_flight(key, flight);
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
	slot->sequential += flight->kind == SEQUENTIAL;
	slot->strided += flight->kind == STRIDED;
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
	tally_flag(flight, bytes, total);
	tally_file(flight, total);
	tally_cgroup(flight, bytes, &total);
}

/* Counts a request that ends without having been issued: rare, so it is not inlined. */
static __attribute__((noinline)) int count_unissued(struct flight *flight, struct request *rq,
						    u32 bytes)
{
	count(flight, rq, bytes, 0);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int rq_complete(u64 *ctx)
{
	struct request *rq = request_of(ctx);
	u64 key = (u64)rq, now;
	struct flight *flight = flight_of(key);
	struct slot *slot;
	u32 bytes = (u32)ctx[2], left, index;

	if (!flight)
		return 0;
	fetch_depth(flight->disk_index);
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
		count_unissued(flight, rq, bytes);
	tally_end(flight, flight->done_bytes, now);
	count_written(flight, flight->done_bytes);
	if (wants_layers && flight->class == CLASS_PROGRAM)
		layer_of_end(flight, call_of_request(rq), now);
	enter_depth(flight, now, -1);
	enter_phase(flight, now, -1);
	drop_flight(key, flight);
	return 0;
}

/* Programs at events other than those of requests. */
#include "process.h"
#include "cache.h"
#include "filesystem.h"
#include "calls.h"
#include "stacks.h"

/* Does nothing: the time that the kernel reports for a run of it is the cost of timing a run. */
SEC("tp_btf/block_rq_complete")
int meter(u64 *ctx)
{
	return 0;
}
