/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Layout of the values in the maps. `src/layout.rs` repeats it in Rust; a test compares both through
 * the type information of the compiled object.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include "kernel.h"

enum {
	/* Histograms: one bucket per unit below 64, then 32 buckets per octave. */
	TIME_SHIFT = 6, /* a unit of time is 64 ns */
	SIZE_SHIFT = 9, /* a unit of size is 512 B */
	TIME_BUCKETS = 864,
	SIZE_BUCKETS = 576,
	DEPTH_BUCKETS = 256,
	/* Histograms of files and cgroups: one bucket per unit below 16, then 8 buckets per octave. */
	COARSE_SHIFT = 10, /* a unit is 1,024 ns */
	COARSE_BUCKETS = 176,
	SLOTS = 128,
	DISKS = 32,
	GROUPS = 128,
	STREAMS = 12,
	PROBATION = 4,
	NAMES = 17,
	NAME_BYTES = 56,
	BLOCK_SHIFT = 12,
	CHUNK_SHIFT = 20,
	BLOCK_SAMPLE_SHIFT = 4, /* one block in 16, once blocks are sampled */
	MARKS_KEPT = 16384, /* requests until blocks are sampled */
	CHUNKS_KEPT = 8192,
	FILE_PLACES = 8192,
	THREAD_PLACES = 8192,
	BURST_BUCKETS = 16,
	BURST_SHIFT = 15, /* requests of a burst are less than 2^15 ns apart */
	CGROUPS_KEPT = 1024,
	FLIGHT_SHIFT = 11, /* 2^11 entries in the array of requests in flight */
};

enum { CLASS_PROGRAM, CLASS_WRITE_BACK, CLASS_JOURNAL, CLASS_DEVICE_FLUSH, CLASS_OTHER };
/* Syncs are counted in slots like requests; their operation is SYNC plus the kind. */
enum { OP_READ, OP_WRITE, OP_DISCARD, OP_FLUSH, OP_OTHER, SYNC = 16 };
enum { FSYNC, FDATASYNC, SYNC_FILE_RANGE, MSYNC, SYNC_ALL, SYNCFS, URING_SYNC };

/* Phases of the disks' work during a sync. */
enum { PHASE_NONE, PHASE_DATA, PHASE_JOURNAL, PHASE_FLUSH, PHASES = 3 };

/* Requests in flight in each phase, in 16 bits of `level` each, and the time in each phase so far. */
struct phases {
	u64 level;
	u64 since_ns; /* begin of the current phase */
	u64 sum_ns[PHASES];
	u64 is_wanted; /* set by the first sync */
};

/* Flags that say why a request was made. */
enum { FLAG_NONE, FLAG_READ_AHEAD, FLAG_SYNC, FLAG_META, FLAG_FUA, FLAGS };

/* Reads or writes with a flag, on one CPU. */
struct flag_use {
	u64 bytes;
	u64 total_ns;
	u64 time[TIME_BUCKETS];
};

/* An io_uring sync in flight. */
struct uring_sync {
	u64 since_ns;
	u64 phase_ns[PHASES]; /* sums when it began */
};

/* Key of a slot. Requests with the same key are counted together. */
struct slot_key {
	u32 disk; /* dev_t of the whole disk; 0 for syncs */
	u8 op;
	u8 class;
	u16 group;
};

/* Per CPU. Counts of buckets may wrap; the reader takes differences. */
struct slot {
	u64 requests;
	u64 bytes;
	u64 direct_bytes;
	u64 durable;
	u64 errors;
	u64 sequential;
	u64 strided;
	u64 total_ns;
	u64 queued_ns;
	u64 device_ns;
	u64 total_min_ns;
	u64 total_max_ns;
	u64 gaps;
	u64 gap_ns;
	u64 gap_us_squared;
	u64 first_ns;
	u64 last_ns;
	u64 phase_ns[PHASES]; /* of syncs: time in each phase */
	u32 bursts[BURST_BUCKETS]; /* ended bursts; bucket n: of 2^n requests or more */
	u32 total[TIME_BUCKETS];
	u32 queued[TIME_BUCKETS];
	u32 device[TIME_BUCKETS];
	u32 gap[TIME_BUCKETS];
	u32 size[SIZE_BUCKETS];
};

/* Requests in flight on one disk now: all of them in the low half of the level, the program's in the
 * high half, so that one atomic operation changes and reads both. */
struct depth {
	u64 level;
	u64 since_ns;
	u64 spare[6]; /* pads to a cache line */
};

/* Time and arrivals by the number of requests in flight, per CPU. */
struct levels {
	u64 max;
	u64 merged_ns; /* latencies of requests that ended by a merge */
	u64 time_ns[DEPTH_BUCKETS];
	u64 arrivals[DEPTH_BUCKETS];
};

struct depth_use {
	struct levels all;
	struct levels program;
	struct levels both; /* only the program had requests: to be added to each of the two */
};

struct file_key {
	u32 device;
	u32 kind; /* one of FILE_… */
	u64 inode;
	u32 generation; /* of the inode, whose number is reused */
	u32 zero;
};

/* Index of the counts of a file. Entry 0 counts all files that found no free entry. */
struct file_place {
	u32 place;
	u32 since; /* low half of the time when the entry became this file's, ns */
};

enum { FILE_NAMED, FILE_OF_DEVICE, FILE_UNTOLD };

/* Pages that a thread has added to a file's page cache and not read yet. */
struct added {
	u64 mapping;
	u64 pages;
};

struct thread {
	u32 tid;
	u32 tgid;
	u32 generation;
	u16 group;
	u8 of_program;
	u8 of_kernel;
	char comm[16];
	u64 reads;
	u64 writes;
	u64 others;
	u64 read_bytes;
	u64 write_bytes;
	u64 sequential;
	u64 syncs;
	u64 sync_ns;
	u64 sync_since_ns;
	u64 sync_phase_ns[PHASES]; /* sums when the sync began */
	u64 ended_ns;
	/* Sector at which the next request of each recent stream would begin, with the disk's index
	 * in the top bits. The first PROBATION entries are for new streams. */
	u64 streams[STREAMS];
	u64 last_sector;
	s64 last_distance;
	u32 next_new;
	u32 next_kept;
	/* Its last request's inode, by address, and file. */
	u64 inode;
	struct file_key file;
	struct file_place file_place;
	u64 call_ns; /* begin of its current I/O call, if layers are requested */
	u64 posted_ns; /* oldest completion that it has not reaped */
	u64 wait_since_ns; /* begin of its wait for I/O, if waits are timed here */
	/* The disk, the slot and the cgroup of its last request. */
	u32 disk;
	u32 disk_index;
	struct slot_key slot_key;
	u32 slot;
	u32 cgroup_place;
	u64 cgroup;
	/* Pages that its read calls looked up, and pages that it brought in, read-ahead included. */
	u64 looked_up;
	u64 brought_in;
	u64 read_mapping; /* of its last look-up */
	u64 read_index;
	u64 read_last;
	struct added added;
	struct added added_of_disk;
};

struct file_use {
	u64 since_ns; /* when the file got this entry, which another may have had before */
	u64 reads;
	u64 writes;
	/* Through the page cache, and by direct I/O. */
	u64 read_bytes[2];
	u64 write_bytes[2];
	u64 write_back_bytes;
	u64 sequential;
	u32 names; /* components of the path in `name`, the last one first */
	u32 is_whole; /* whether they reach up to the file system's root */
	u64 kept_inode; /* address of the inode, to read the names again */
	char name[NAMES][NAME_BYTES];
};

/* Latencies of reads, and of writes. */
struct times {
	u64 since_ns; /* of a file: copied from `file_use`, whose cache line other CPUs write */
	u64 sum_ns[2];
	u32 time[2][COARSE_BUCKETS];
};

struct cgroup_use {
	u64 requests;
	u64 read_bytes;
	u64 write_bytes;
	struct times times;
};

struct chunk_key {
	u32 disk;
	u32 zero;
	u64 number;
};

struct chunk {
	u64 reads;
	u64 writes;
	u64 block_writes;
	u64 overwrites;
	u64 read[4];
	u64 written[4];
};

/* Which chunks and blocks are kept: all of them at first. */
struct sampling {
	u64 marks; /* requests while all blocks are kept */
	u64 chunks; /* kept now */
	u32 block_shift; /* one block of 2^n is kept */
	u32 chunk_shift; /* one chunk of 2^n is kept */
};

/* A request in flight: one cache line, which moves from the CPU that submits the request to the one
 * that completes it. */
struct flight {
	u64 key; /* address of the request; 0 in a free entry, and in the hash table */
	u64 start_ns;
	u64 issue_ns;
	struct file_place file;
	u32 disk;
	u32 tid;
	u32 bytes;
	u32 done_bytes;
	u16 cgroup_place; /* index in `cgroup_data` */
	u8 disk_index;
	u8 slot;
	u8 op;
	u8 class;
	u8 is_direct;
	u8 is_durable;
	u8 is_counted;
	u8 has_error;
	u8 has_file; /* 1 + one of FILE_… */
	u8 kind; /* sequential, strided or neither */
	u8 phase; /* one of PHASE_… */
	u8 flag; /* one of FLAG_… */
	u16 zero;
};

/* The thread that last dirtied pages in a stretch of a file. */
struct owner_key {
	u64 inode;
	u64 stretch;
};

struct owner {
	u32 tid;
	u32 group;
	u64 number; /* of the inode, whose address may be reused */
};

/* Parts of the time of an I/O call, outside the block layer and the device. */
enum { LAYER_SUBMISSION, LAYER_BEFORE, LAYER_COMPLETION, LAYER_REAPING, LAYERS };

struct layers {
	u64 calls[LAYERS];
	u64 sum_ns[LAYERS];
	u32 time[LAYERS][TIME_BUCKETS];
};

struct submitted {
	u64 submit_ns;
	u64 end_ns;
};

/* Shared state of a slot. */
struct arrival {
	u64 last_ns;
	u64 burst; /* requests of the current burst, without its first */
};

struct counts {
	u64 opens;
	u64 open_direct;
	u64 open_sync;
	u64 open_dsync;
	u64 calls_read;
	u64 calls_write;
	u64 bytes_read;
	u64 bytes_written;
	u64 storage_read;
	u64 storage_written;
	u64 cancelled;
	u64 io_delay_ns;
	u64 run_delay_ns;
	u64 ended_threads;
	u64 dirtied_bytes;
	u64 written_back_bytes;
	u64 lost_flights;
	u64 lost_slots;
	u64 lost_threads;
	u64 lost_chunk_bytes;
	u64 lost_cgroups;
	u64 lost_syncs;
	u64 lost_ends;
	u64 lost_stacks;
};

/* Work of file systems. Of a pair, the first counts the program's and the second that of others. */
enum {
	WORK_PAGES_OF_PROGRAM,
	WORK_PAGES_OF_OTHERS,
	WORK_WRITE_BACK, /* five reasons: background, reclaim, sync, periodic, other */
	WORK_COMMIT = WORK_WRITE_BACK + 5,
	WORK_COMMIT_OPERATIONS,
	WORK_COMMIT_LOCK,
	WORK_COMMIT_DATA,
	WORK_COMMIT_LOG,
	WORK_FORCE_OF_PROGRAM,
	WORK_FORCE_OF_OTHERS,
	WORK_FULL_OF_PROGRAM,
	WORK_FULL_OF_OTHERS,
	WORKS,
};

/* Per CPU. */
struct work_use {
	u64 times;
	u64 amount;
	u64 ns;
};

/* Work in progress. */
struct span {
	u64 since_ns;
	u64 pages; /* to be written when it began; of a log force, its sequence number */
};

enum { STACK_OF_REQUEST, STACK_OF_WAIT, FRAMES = 127 };

/* The two stacks of a thread, by their IDs; negative if there is none. */
struct stack_key {
	u32 tgid;
	u32 kind;
	s32 kernel;
	s32 user;
	char comm[16];
};

/* How often a stack was seen, and the sum of its requests' bytes or its waits' ns. */
struct stack_use {
	u64 count;
	u64 amount;
};

/* A thread that waits. */
struct blocked {
	u64 since_ns;
	struct stack_key key;
};

#endif
