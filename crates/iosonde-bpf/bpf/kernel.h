/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * The kernel's types and fields that are read here. Only names count: the loader takes each offset
 * from the running kernel's type information (CO-RE). `HAS` tests for a field that some kernels lack.
 */
#ifndef KERNEL_H
#define KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define relocated __attribute__((preserve_access_index))

struct address_space;
struct dentry;
struct inode;

struct task_struct;

struct list_head {
	struct list_head *next;
} relocated;

struct swait_queue_head {
	struct list_head task_list;
} relocated;

struct swait_queue {
	struct task_struct *task;
	struct list_head task_list;
} relocated;

struct completion {
	struct swait_queue_head wait;
} relocated;

struct super_block {
	u32 s_dev;
} relocated;

struct hlist_node {
	struct hlist_node *next;
} relocated;

struct hlist_head {
	struct hlist_node *first;
} relocated;

struct inode {
	u16 i_mode;
	struct address_space *i_mapping;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_rdev;
	u32 i_generation;
	s64 i_size;
	struct hlist_head i_dentry;
} relocated;

struct address_space {
	struct inode *host;
} relocated;

struct qstr {
	const unsigned char *name;
} relocated;

struct dentry {
	struct inode *d_inode;
	struct dentry *d_parent;
	struct qstr d_name;
} relocated;

/* Since 6.17 `d_alias`, the link in an inode's list of names, is no longer a member of `d_u`. */
struct dentry___union {
	union {
		struct hlist_node d_alias;
	} d_u;
} relocated;

struct dentry___plain {
	struct hlist_node d_alias;
} relocated;

enum pageflags {
	PG_locked = 0,
	PG_writeback = 1,
	PG_head = 6,
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
	u32 _nr_pages;
} relocated;

/* `struct page` before folios. */
struct page___plain {
	unsigned long index;
} relocated;

struct page {
	unsigned long compound_head;
	struct address_space *mapping;
} relocated;

struct file {
	struct inode *f_inode;
} relocated;

struct kiocb {
	struct file *ki_filp;
} relocated;

struct iomap_dio {
	struct kiocb *iocb;
} relocated;

struct blkdev_dio {
	struct kiocb *iocb;
	u32 flags;
	struct {
	} bio;
} relocated;

struct btrfs_inode {
	struct {
	} vfs_inode;
} relocated;

struct btrfs_bio {
	struct btrfs_inode *inode;
	struct {
	} bio;
} relocated;

struct dm_io {
	struct bio *orig_bio;
} relocated;

struct dm_target_io {
	struct dm_io *io;
	struct {
	} clone;
} relocated;

struct kernfs_node {
	u64 id;
} relocated;

struct cgroup {
	struct kernfs_node *kn;
} relocated;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} relocated;

struct blkcg {
	struct cgroup_subsys_state css;
} relocated;

struct blkcg_gq {
	struct blkcg *blkcg;
} relocated;

struct bio_vec {
	struct page *bv_page;
} relocated;

struct block_device {
	u32 bd_dev;
} relocated;

struct bdev_inode {
	struct block_device bdev;
	struct {
	} vfs_inode;
} relocated;

struct bvec_iter {
	u32 bi_size;
} relocated;

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	struct bvec_iter bi_iter;
	void *bi_end_io;
	void *bi_private;
	struct blkcg_gq *bi_blkg;
	struct bio_vec *bi_io_vec;
} relocated;

struct gendisk {
	struct block_device *part0;
} relocated;

struct request_queue {
	struct gendisk *disk;
} relocated;

struct request {
	struct request_queue *q;
	u32 cmd_flags;
	u32 __data_len;
	u64 __sector;
	struct bio *bio;
} relocated;

struct task_io_accounting {
	u64 rchar;
	u64 wchar;
	u64 syscr;
	u64 syscw;
	u64 read_bytes;
	u64 write_bytes;
	u64 cancelled_write_bytes;
} relocated;

struct task_delay_info {
	u64 blkio_delay;
} relocated;

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
} relocated;

struct sched_info {
	u64 run_delay;
} relocated;

struct task_struct {
	s32 pid;
	s32 tgid;
	u32 flags;
	struct task_struct *group_leader;
	char comm[16];
	struct signal_struct *signal;
	struct task_io_accounting ioac;
	struct task_delay_info *delays;
	struct sched_info sched_info;
	unsigned in_iowait : 1;
} relocated;

struct io_cqe {
	s32 res;
} relocated;

struct io_kiocb {
	u8 opcode;
	struct io_cqe cqe;
} relocated;

enum wb_reason {
	WB_REASON_BACKGROUND,
	WB_REASON_VMSCAN,
	WB_REASON_SYNC,
	WB_REASON_PERIODIC,
};

struct wb_writeback_work {
	long nr_pages;
	enum wb_reason reason;
} relocated;

struct pt_regs;

struct pt_regs___x86 {
	unsigned long si;
	unsigned long di;
	unsigned long dx;
	unsigned long orig_ax;
} relocated;

struct pt_regs___arm64 {
	u64 regs[31];
	s32 syscallno;
} relocated;

/* Operation codes of block requests: unchanged since 4.10 or earlier. */
enum {
	OP_MASK = 0xff,
	RAW_READ = 0,
	RAW_WRITE = 1,
	RAW_FLUSH = 2,
	RAW_DISCARD = 3,
	RAW_SECURE_ERASE = 5,
	RAW_WRITE_ZEROES = 9,
};

/* Request flags have moved between kernels, so their bits are read from the kernel's types. */
enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META = 12,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
	__REQ_RAHEAD = 19,
};

enum {
	DIO_IS_SYNC = 2,
	PF_KTHREAD = 0x00200000,
	PF_IO_WORKER = 0x00000010,
	TASK_DEAD = 0x80,
	S_IFMT = 0170000,
	S_IFREG = 0100000,
	S_IFBLK = 0060000,
	MAPPING_FLAGS = 3,
};

#endif
