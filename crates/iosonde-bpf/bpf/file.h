/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* The file and the cgroup that the data of a request belong to. */
#ifndef FILE_H
#define FILE_H

inlined u64 bio_address(struct bio *bio)
{
	u64 address = 0;

	/* The verifier rejects arithmetic on a pointer that it knows. */
	__builtin_memcpy(&address, &bio, sizeof(address));
	asm volatile("" : "+r"(address));
	return address;
}

/* Origin of a bio, by the function that the kernel calls at its end (`bi_end_io`). */
enum end {
	END_OTHER, /* unknown */
	END_FILE, /* direct I/O on a file, by iomap */
	END_DISK, /* direct I/O on a block device, of several bios */
	END_DISK_ASYNC, /* the same of one bio, not waited for */
	END_PART, /* split off a larger bio */
	END_WAIT, /* submitted and waited for at once */
	END_BTRFS, /* a request of btrfs, for a file or not */
	END_CLONE, /* made by the device mapper for a bio that it received */
};

const char symbol_format[] = "%ps";

enum { SYMBOL_BYTES = 32 };

inlined int is_same(const u64 *name, const char *text)
{
#pragma unroll
	for (int i = 0; i < SYMBOL_BYTES / 8; i++) {
		u64 word;

		__builtin_memcpy(&word, text + 8 * i, sizeof(word));
		if (name[i] != word)
			return 0;
	}
	return 1;
}

#define IS_NAMED(name, text)                            \
	({                                              \
		static const char _text[SYMBOL_BYTES] = text; \
		is_same(name, _text);                   \
	})

/* The origin by the function's name, which BPF programs may print even where addresses are hidden. */
apart int end_by_name(u64 function)
{
	u64 name[SYMBOL_BYTES / 8] = {};

	print((char *)name, sizeof(name), symbol_format, &function, sizeof(function));
	if (IS_NAMED(name, "iomap_dio_bio_end_io"))
		return END_FILE;
	if (IS_NAMED(name, "blkdev_bio_end_io"))
		return END_DISK;
	if (IS_NAMED(name, "blkdev_bio_end_io_async"))
		return END_DISK_ASYNC;
	if (IS_NAMED(name, "bio_chain_endio"))
		return END_PART;
	if (IS_NAMED(name, "submit_bio_wait_endio"))
		return END_WAIT;
	if (IS_NAMED(name, "btrfs_simple_end_io") || IS_NAMED(name, "btrfs_orig_write_end_io"))
		return END_BTRFS;
	/* The kernel appends the name of a module. */
	if (IS_NAMED(name, "clone_endio") || IS_NAMED(name, "clone_endio [dm_mod]"))
		return END_CLONE;
	return END_OTHER;
}

/* The same, from a cache. Its key is the low half of the function's address: this identifies the function,
 * and the verifier takes it for a number even where it takes the whole for a pointer. */
inlined int end_of(struct bio *bio, void *function)
{
	u64 address = (u64)function, word, *known;
	u32 low, place;

	asm volatile("" : "+r"(address));
	low = address;
	place = low * 0x9e3779b9 >> (32 - END_SHIFT);
	known = map_lookup(&ends, &place);
	if (!known)
		return END_OTHER;
	word = *known ^ (u64)low << END_BITS;
	if (word >> END_BITS) {
		word = end_by_name((u64)FIELD(bio, bi_end_io));
		*known = (u64)low << END_BITS | word;
	}
	return word;
}

/* A bio as submitted, before the block layer split it. */
struct whole {
	struct bio *bio;
	void *private;
	int end;
};

inlined struct whole left_of(struct whole part)
{
	struct bio *bio = part.private;

	return (struct whole){ bio, FIELD(bio, bi_private), end_of(bio, FIELD(bio, bi_end_io)) };
}

/* The bio that the device mapper received. Its types are known only where it is not a module. */
inlined struct whole original_of(struct whole clone)
{
	u64 address = bio_address(clone.bio) - OFFSET(struct dm_target_io, clone);
	struct dm_io *io;
	struct bio *bio = 0;

	if (HAS(struct dm_target_io, clone) && HAS(struct dm_io, orig_bio)) {
		io = FIELD((struct dm_target_io *)address, io);
		bio = io ? FIELD(io, orig_bio) : 0;
	}
	if (!bio)
		return (struct whole){ clone.bio, 0, END_OTHER };
	return (struct whole){ bio, FIELD(bio, bi_private), end_of(bio, FIELD(bio, bi_end_io)) };
}

/* The bio as submitted. If a bio is too large, it is split, and the parts point to the remainder. The device
 * mapper's clones may be split, and so may the bios that it receives. A volume may lie on another. */
inlined struct whole whole_of(struct bio *bio)
{
	struct whole whole = { bio, bio->bi_private, end_of(bio, bio->bi_end_io) };

	if (whole.end == END_PART)
		whole = left_of(whole);
	if (whole.end == END_PART)
		whole = left_of(whole);
	if (whole.end == END_CLONE)
		whole = original_of(whole);
	if (whole.end == END_CLONE)
		whole = original_of(whole);
	return whole.end == END_PART ? left_of(whole) : whole;
}

/* Whether the thread of a large direct request on a block device waits for it. `iocb` is then the thread. */
inlined int is_waited_for(struct blkdev_dio *dio)
{
	return !HAS(struct blkdev_dio, flags) || READ(dio, flags) & DIO_IS_SYNC;
}

/* The kernel's I/O call (`kiocb`) of a direct request; NULL if unknown. */
inlined struct kiocb *call_of_whole(struct whole whole)
{
	/* Copied, because READ would look for a field of `whole` in the kernel's types, too. */
	void *private = whole.private;

	if (whole.end == END_FILE && HAS(struct iomap_dio, iocb))
		return READ((struct iomap_dio *)private, iocb);
	if (!HAS(struct blkdev_dio, bio))
		return 0;
	if (whole.end == END_DISK && !is_waited_for(private))
		return READ((struct blkdev_dio *)private, iocb);
	if (whole.end == END_DISK_ASYNC) {
		u64 dio = bio_address(whole.bio) - OFFSET(struct blkdev_dio, bio);

		return READ((struct blkdev_dio *)dio, iocb);
	}
	return 0;
}

inlined u64 call_of_request(struct request *rq)
{
	struct bio *bio = rq->bio;

	return bio ? (u64)call_of_whole(whole_of(bio)) : 0;
}

/* The thread that waits for a direct request on a block device; NULL if unknown. Such a request has no
 * `kiocb`. */
inlined struct thread *waiter_of(struct bio *bio)
{
	struct whole whole = whole_of(bio);
	struct completion *done = whole.private;
	struct task_struct *task;
	u64 first;

	if (whole.end == END_DISK && HAS(struct blkdev_dio, iocb) && is_waited_for(whole.private)) {
		task = (struct task_struct *)FIELD((struct blkdev_dio *)done, iocb);
		return task ? thread_of(FIELD(task, pid)) : 0;
	}
	if (!HAS(struct completion, wait.task_list) || whole.end != END_WAIT)
		return 0;
	first = (u64)FIELD(done, wait.task_list.next);
	/* A list without entries points to itself. */
	if (!first || first == (u64)done + OFFSET(struct completion, wait.task_list))
		return 0;
	task = FIELD((struct swait_queue *)(first - OFFSET(struct swait_queue, task_list)), task);
	if (!task)
		return 0;
	return thread_of(FIELD(task, pid));
}

/* The file of a direct request of btrfs, which embeds each bio in a `btrfs_bio`; NULL where btrfs is a
 * module, because its types are then unknown. */
inlined struct inode *inode_of_btrfs(struct bio *bio)
{
	struct btrfs_inode *of;
	struct inode *inode;

	if (!HAS(struct btrfs_bio, inode) || !HAS(struct btrfs_inode, vfs_inode))
		return 0;
	of = FIELD((struct btrfs_bio *)(bio_address(bio) - OFFSET(struct btrfs_bio, bio)), inode);
	inode = (struct inode *)((u64)of + OFFSET(struct btrfs_inode, vfs_inode));
	return of && (READ(inode, i_mode) & S_IFMT) == S_IFREG ? inode : 0;
}

/* The inode of a block device: the kernel has one for all of the device's nodes. */
inlined struct inode *inode_of_device(struct bio *bio)
{
	struct block_device *device = FIELD(bio, bi_bdev);

	if (!HAS(struct bdev_inode, vfs_inode) || !device)
		return 0;
	return (struct inode *)((u64)device - OFFSET(struct bdev_inode, bdev) +
				OFFSET(struct bdev_inode, vfs_inode));
}

/* Whether a page is read or written for its own file, or as swap: it is then locked or under write-back. */
inlined int is_of_its_own(struct page *page)
{
	u64 flags = 0;

	read_kernel(&flags, sizeof(flags), page);
	return flags >> ENUM_VALUE(enum pageflags, PG_locked) & 1 ||
	       flags >> ENUM_VALUE(enum pageflags, PG_writeback) & 1;
}

/* Whether a page of a file's page cache is the buffer of a direct request. */
inlined int is_memory(struct page *page, struct inode *inode)
{
	return (READ(inode, i_mode) & S_IFMT) == S_IFREG && !is_of_its_own(page);
}

/* The inode of a direct request without a `kiocb`. No file system submits a program's memory and waits for
 * it at once, so such a request is direct I/O on the device itself. */
inlined struct inode *inode_of_memory(struct whole whole, struct page *page)
{
	if (whole.end == END_BTRFS)
		return inode_of_btrfs(whole.bio);
	if (whole.end == END_DISK || (whole.end == END_WAIT && !is_of_its_own(page)))
		return inode_of_device(whole.bio);
	return 0;
}

/* The inode whose data a request carries, from its direct I/O or from the page cache; NULL if unknown.
 * `direct` is set if the memory is a program's, not the kernel's or the page cache's. */
inlined struct inode *inode_of(struct bio *bio, u8 *direct, u64 *call)
{
	struct whole whole = whole_of(bio);
	struct kiocb *iocb = call_of_whole(whole);
	struct bio_vec *vector;
	struct page *page;
	struct inode *inode;
	unsigned long head, mapping;

	if (iocb) {
		struct file *file = READ(iocb, ki_filp);

		*direct = 1;
		*call = (u64)iocb;
		return file ? READ(file, f_inode) : 0;
	}
	vector = bio->bi_io_vec;
	page = vector ? READ(vector, bv_page) : 0;
	if (!page)
		return 0;
	if (HAS(struct page, compound_head)) {
		head = FIELD(page, compound_head);
		if (head & 1)
			page = (struct page *)(head - 1);
	}
	mapping = (unsigned long)FIELD(page, mapping);
	/* The kernel's own memory has no mapping; the field may hold other data. */
	if (!(mapping >> 63))
		return 0;
	if (mapping & MAPPING_FLAGS) {
		*direct = 1;
		return inode_of_memory(whole, page);
	}
	inode = READ((struct address_space *)mapping, host);
	if (!inode || (unsigned long)READ(inode, i_mapping) != mapping)
		return 0;
	if (is_memory(page, inode)) {
		*direct = 1;
		return inode_of_memory(whole, page);
	}
	return inode;
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

/* Stores the components of a file's path, its own name first. */
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

/* Whether a kept inode is still that of the file and has a name. A freed inode has other data in the field
 * of its names. */
inlined int is_still(struct inode *inode, u64 device, u64 number, u64 generation)
{
	struct super_block *sb = FIELD(inode, i_sb);
	struct dentry *dentry = dentry_of(inode);

	return sb && FIELD(sb, s_dev) == (u32)device && FIELD(inode, i_ino) == number &&
	       FIELD(inode, i_generation) == (u32)generation && dentry &&
	       FIELD(dentry, d_inode) == inode;
}

/* Reads the names of a file again, because it may have been renamed since its first request. User space
 * passes the file's index, and the device, number and generation that its inode must still have. */
SEC("raw_tp/names_again")
int names_again(u64 *ctx)
{
	u32 place = ctx[0];
	struct file_use *file = map_lookup(&file_data, &place);
	struct inode *inode;

	if (!file || !file->kept_inode)
		return 0;
	inode = (struct inode *)file->kept_inode;
	if (!is_still(inode, ctx[1], ctx[2], ctx[3]))
		return 0;
	file->is_whole = 0;
	name_file(file, inode);
	return 0;
}

/* The index at which a file is counted. If it has none, an entry is made with its names. */
apart int find_file(struct file_key *of, u64 inode, struct file_place *to)
{
	struct file_place *known, place = {};
	u64 since_ns;
	struct file_use *fresh;
	struct times *times;
	struct file_key key;
	u32 zero = 0;

	if (!of || !to)
		return 0;
	/* Linux 6.1 accepts a key only on the stack of this function. */
	key = *of;
	known = map_lookup(&files, &key);
	if (known) {
		*to = *known;
		return 0;
	}
	*to = place;
	fresh = map_lookup(&file_scratch, &zero);
	if (!fresh)
		return 0;
	place.place = free_place(&file_free, &file_count, FILE_PLACES);
	if (!place.place)
		return 0;
	since_ns = ktime_ns();
	place.since = (u32)since_ns;
	/* Names are not cleared: they end with a zero byte, and what follows it is not read. */
	__builtin_memset(fresh, 0, sizeof(*fresh) - sizeof(fresh->name));
	fresh->since_ns = since_ns;
	if (inode && key.kind == FILE_NAMED) {
		fresh->kept_inode = inode;
		name_file(fresh, (struct inode *)inode);
	}
	map_update(&file_data, &place.place, fresh, ANY);
	times = map_lookup(&file_times, &place.place);
	if (times)
		times->since_ns = since_ns;
	if (map_update(&files, &key, &place, NOEXIST)) {
		/* Another CPU was first, or the table is full. This entry stays unused. */
		known = map_lookup(&files, &key);
		if (known)
			*to = *known;
		return 0;
	}
	*to = place;
	return 0;
}

inlined u64 cgroup_of(struct bio *bio)
{
	struct blkcg_gq *group = bio->bi_blkg;

	return group ? group->blkcg->css.cgroup->kn->id : 0;
}

#endif
