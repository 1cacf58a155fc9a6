/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Pages that read calls of the program look up in the page cache, and the pages that its threads
 * bring in. A read first adds the missing pages and the read-ahead, then looks the pages up. Pages
 * added for a write become dirty at once; they are not misses.
 */
#ifndef CACHE_H
#define CACHE_H

SEC("tp_btf/mm_filemap_add_to_page_cache")
int page_added(u64 *ctx)
{
	struct folio *folio = (struct folio *)ctx[0];
	struct thread *thread = counted_thread();
	struct address_space *mapping;
	struct added *added;

	if (!thread)
		return 0;
	mapping = folio->mapping;
	if (!mapping || !mapping->host)
		return 0;
	/* Counted apart: file system metadata, in the page cache of the device, is read in between. */
	added = (mapping->host->i_mode & S_IFMT) == S_IFBLK ? &thread->added_of_disk : &thread->added;
	if (added->mapping != (u64)mapping) {
		added->mapping = (u64)mapping;
		added->pages = 0;
	}
	added->pages += size_of(folio) / page_bytes;
	return 0;
}

inlined void claim(struct thread *thread, struct added *added, u64 mapping)
{
	if (added->mapping != mapping)
		return;
	thread->brought_in += added->pages;
	added->pages = 0;
}

SEC("tp_btf/mm_filemap_get_pages")
int pages_read(u64 *ctx)
{
	struct address_space *mapping = (struct address_space *)ctx[0];
	u64 index = ctx[1], last = ctx[2], end;
	struct thread *thread = counted_thread();
	struct inode *inode;

	if (!thread || !mapping)
		return 0;
	inode = mapping->host;
	if (!inode)
		return 0;
	/* A long read looks up its pages in batches, each with the same last page, which may be past
	 * the end of the file. */
	if (thread->read_mapping != (u64)mapping || thread->read_last != last ||
	    index <= thread->read_index) {
		end = inode->i_size + page_bytes - 1;
		end /= page_bytes;
		if (end > last)
			end = last + 1;
		if (end > index)
			thread->looked_up += end - index;
	}
	thread->read_mapping = (u64)mapping;
	thread->read_index = index;
	thread->read_last = last;
	claim(thread, &thread->added, (u64)mapping);
	claim(thread, &thread->added_of_disk, (u64)mapping);
	return 0;
}

#endif
