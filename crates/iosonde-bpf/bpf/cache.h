/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Pages that read calls of the program look up in the page cache, and how many of them the program's
 * threads had to bring in. A read that begins adds the pages that are missing, and those read ahead,
 * before it looks them up. Pages added to be written get dirty at once, and are no misses.
 */
#ifndef CACHE_H
#define CACHE_H

/* The running thread, if requests count and it is the program's. */
inlined struct thread *counted_thread(void)
{
	if (!has_begun() || !is_followed(current_pid_tgid() >> 32))
		return 0;
	return this_thread();
}

/* Metadata of file systems is in the cache of their devices: kept apart, as it is read meanwhile. */
inlined struct added *added_by(struct thread *thread, struct inode *inode)
{
	return (FIELD(inode, i_mode) & S_IFMT) == S_IFBLK ? &thread->added_of_disk : &thread->added;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int page_added(u64 *ctx)
{
	struct folio *folio = (struct folio *)ctx[0];
	struct thread *thread = counted_thread();
	struct address_space *mapping;
	struct added *added;
	struct inode *inode;

	if (!thread)
		return 0;
	mapping = FIELD((struct page *)folio, mapping);
	inode = mapping ? FIELD(mapping, host) : 0;
	if (!inode)
		return 0;
	added = added_by(thread, inode);
	if (added->mapping != (u64)mapping) {
		added->mapping = (u64)mapping;
		added->pages = 0;
	}
	added->pages += size_of(folio) / page_bytes;
	return 0;
}

SEC("tp_btf/mm_filemap_get_pages")
int pages_read(u64 *ctx)
{
	struct address_space *mapping = (struct address_space *)ctx[0];
	u64 index = ctx[1], last = ctx[2], end;
	struct thread *thread = counted_thread();
	struct added *added;
	struct inode *inode;

	if (!thread || !mapping)
		return 0;
	inode = FIELD(mapping, host);
	if (!inode)
		return 0;
	/* A long read looks up some pages at a time: always to the same last one, which may be behind
	 * the file's end. */
	if (thread->read_mapping != (u64)mapping || thread->read_last != last ||
	    index <= thread->read_index) {
		end = FIELD(inode, i_size) + page_bytes - 1;
		end /= page_bytes;
		if (end > last)
			end = last + 1;
		if (end > index)
			thread->looked_up += end - index;
	}
	thread->read_mapping = (u64)mapping;
	thread->read_index = index;
	thread->read_last = last;
	added = added_by(thread, inode);
	if (added->mapping == (u64)mapping) {
		thread->brought_in += added->pages;
		added->pages = 0;
	}
	return 0;
}

#endif
