/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Threads that dirtied pages: write-back by another thread is attributed to them. */
#ifndef DIRTY_H
#define DIRTY_H

enum { STRETCH_PAGES_SHIFT = 8 };
#define WHOLE_FILE (~0ULL)

static __attribute__((noinline)) int remember_owner(u64 inode, u64 stretch, u64 pages)
{
	struct owner_key key = { .inode = inode, .stretch = stretch };
	struct thread *thread = this_thread();
	struct owner owner, *known;

	if (!thread || !thread->of_program)
		return 0;
	/* These pages were added to the page cache for a write. */
	thread->added.pages -= pages < thread->added.pages ? pages : thread->added.pages;
	owner.tid = thread->tid;
	owner.group = thread->group;
	owner.number = FIELD((struct inode *)inode, i_ino);
	known = map_lookup(&owners, &key);
	if (!known || known->tid != owner.tid || known->number != owner.number)
		map_update(&owners, &key, &owner, ANY);
	return 1;
}

inlined struct owner *owner_of(u64 inode, u64 stretch)
{
	struct owner_key key = { .inode = inode, .stretch = stretch };
	struct owner *owner = map_lookup(&owners, &key);

	/* The kernel reuses the memory of a deleted file's inode for another file. */
	return owner && owner->number == READ((struct inode *)inode, i_ino) ? owner : 0;
}

/* Index of a folio's first page in its file. */
inlined u64 index_of(struct folio *folio)
{
	if (HAS(struct folio, index))
		return FIELD(folio, index);
	return FIELD((struct page___plain *)folio, index);
}

/* Bytes of a folio. Only a large folio stores its number of pages. */
inlined u64 size_of(struct folio *folio)
{
	u64 pages = 1, flags = 0;

	/* The flags come first in every page. */
	read_kernel(&flags, sizeof(flags), folio);
	if (HAS(struct folio, _nr_pages) && flags >> ENUM_VALUE(enum pageflags, PG_head) & 1)
		pages = FIELD(folio, _nr_pages);
	return (pages && pages <= 1 << 18 ? pages : 1) * page_bytes;
}

inlined u64 stretch_of(struct bio *bio)
{
	struct bio_vec *vector = bio->bi_io_vec;
	struct folio *folio = vector ? (struct folio *)FIELD(vector, bv_page) : 0;
	unsigned long head;

	if (!folio)
		return 0;
	if (HAS(struct page, compound_head)) {
		head = FIELD((struct page *)folio, compound_head);
		if (head & 1)
			folio = (struct folio *)(head - 1);
	}
	return index_of(folio) >> STRETCH_PAGES_SHIFT;
}

inlined int dirtied(struct folio *folio, struct address_space *mapping)
{
	struct inode *inode;
	u64 id = current_pid_tgid(), bytes;

	if (!mapping || !folio || !is_followed(id >> 32))
		return 0;
	inode = FIELD(mapping, host);
	if (!inode)
		return 0;
	bytes = size_of(folio);
	COUNT(dirtied_bytes, bytes);
	remember_owner((u64)inode, index_of(folio) >> STRETCH_PAGES_SHIFT, bytes / page_bytes);
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

#endif
