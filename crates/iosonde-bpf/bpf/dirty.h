/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Pages that somebody made dirty: whose they are when somebody else writes them. */
#ifndef DIRTY_H
#define DIRTY_H

enum { STRETCH_PAGES_SHIFT = 8 };
#define WHOLE_FILE (~0ULL)

/* Stands for the file of direct requests that do not tell one; no address of an inode. */
inlined u64 untold_file(u32 disk)
{
	return disk;
}

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

inlined struct owner *owner_of(u64 inode, u64 stretch)
{
	struct owner_key key = { .inode = inode, .stretch = stretch };

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

#endif
