/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Work of file systems between calls and requests, for the program and for others: ext4, its journal,
 * XFS, and write-back. A file system may be a module, whose types the loader does not see. Its
 * tracepoints are therefore raw: only numeric arguments and one structure, unchanged since 3.10, are read.
 */
#ifndef FILESYSTEM_H
#define FILESYSTEM_H

enum { SPAN_PAGES, SPAN_ROUND, SPAN_COMMIT, SPAN_FORCE };

inlined u64 span_key(u32 span)
{
	return (u64)span << 32 | (u32)current_pid_tgid();
}

inlined void span_begin(u32 kind, u64 pages)
{
	struct span span = { .since_ns = ktime_ns(), .pages = pages };
	u64 key = span_key(kind);

	if (has_begun())
		map_update(&spans, &key, &span, ANY);
}

static __attribute__((noinline)) int count_work(u32 work, u64 amount, u64 ns)
{
	struct work_use *use = map_lookup(&work_data, &work);

	if (!use)
		return 0;
	use->times += 1;
	use->amount += amount;
	use->ns += ns;
	return 0;
}

/* Kind of work, of a pair: the first if the program does it, else the second. */
inlined u32 by_whom(u32 work)
{
	return is_followed(current_pid_tgid() >> 32) ? work : work + 1;
}

SEC("raw_tp/ext4_writepages")
int pages_begin(u64 *ctx)
{
	span_begin(SPAN_PAGES, 0);
	return 0;
}

SEC("raw_tp/ext4_writepages_result")
int pages_end(u64 *ctx)
{
	u64 key = span_key(SPAN_PAGES);
	struct span *span = map_lookup(&spans, &key);

	if (!span)
		return 0;
	count_work(by_whom(WORK_PAGES_OF_PROGRAM), (u32)ctx[3], ktime_ns() - span->since_ns);
	map_delete(&spans, &key);
	return 0;
}

SEC("tp_btf/writeback_start")
int round_begin(u64 *ctx)
{
	struct wb_writeback_work *work = (struct wb_writeback_work *)ctx[1];

	span_begin(SPAN_ROUND, FIELD(work, nr_pages));
	return 0;
}

SEC("tp_btf/writeback_written")
int round_end(u64 *ctx)
{
	struct wb_writeback_work *work = (struct wb_writeback_work *)ctx[1];
	u64 key = span_key(SPAN_ROUND), pages;
	struct span *span = map_lookup(&spans, &key);
	u32 reason = FIELD(work, reason);

	if (!span)
		return 0;
	pages = span->pages - FIELD(work, nr_pages);
	if (reason > WB_REASON_PERIODIC)
		reason = WB_REASON_PERIODIC + 1;
	if (pages)
		count_work(WORK_WRITE_BACK + reason, pages, ktime_ns() - span->since_ns);
	map_delete(&spans, &key);
	return 0;
}

/* Counts a finished step of a commit. One thread of the journal does all steps. */
inlined void commit_step(u32 work)
{
	u64 key = span_key(SPAN_COMMIT), now = ktime_ns();
	struct span *span = map_lookup(&spans, &key);

	if (!span)
		return;
	count_work(work, 0, now - span->since_ns);
	span->since_ns = now;
}

SEC("raw_tp/jbd2_start_commit")
int commit_begin(u64 *ctx)
{
	span_begin(SPAN_COMMIT, 0);
	return 0;
}

SEC("raw_tp/jbd2_commit_flushing")
int commit_data(u64 *ctx)
{
	commit_step(WORK_COMMIT_LOCK);
	return 0;
}

SEC("raw_tp/jbd2_commit_logging")
int commit_log(u64 *ctx)
{
	commit_step(WORK_COMMIT_DATA);
	return 0;
}

/* `struct transaction_run_stats_s`. Its times are in ticks (jiffies), which are too coarse. */
struct commit_stats {
	unsigned long ticks[6];
	u32 operations;
	u32 blocks;
	u32 logged;
};

SEC("raw_tp/jbd2_run_stats")
int commit_size(u64 *ctx)
{
	u64 key = span_key(SPAN_COMMIT);
	struct commit_stats stats = {};

	if (!map_lookup(&spans, &key) || read_kernel(&stats, sizeof(stats), (void *)ctx[2]))
		return 0;
	count_work(WORK_COMMIT, stats.logged, 0);
	count_work(WORK_COMMIT_OPERATIONS, stats.operations, 0);
	return 0;
}

SEC("raw_tp/jbd2_end_commit")
int commit_end(u64 *ctx)
{
	u64 key = span_key(SPAN_COMMIT);

	commit_step(WORK_COMMIT_LOG);
	map_delete(&spans, &key);
	return 0;
}

/*
 * XFS reports a log force twice (seen on Linux 6.1 and 6.18): first when it is requested, with a
 * sequence number or 0 for all; then when the same thread writes out what is not in the log yet, with
 * the sequence number of that.
 */
SEC("raw_tp/xfs_log_force")
int log_force(u64 *ctx)
{
	struct span force = { .pages = ctx[1] };
	u64 key = span_key(SPAN_FORCE);
	struct span *called = map_lookup(&spans, &key);

	if (!has_begun())
		return 0;
	if (called && force.pages && (!called->pages || called->pages == force.pages)) {
		map_delete(&spans, &key);
		return 0;
	}
	map_update(&spans, &key, &force, ANY);
	count_work(by_whom(WORK_FORCE_OF_PROGRAM), 0, 0);
	return 0;
}

SEC("raw_tp/xfs_log_grant_sleep")
int log_full(u64 *ctx)
{
	if (has_begun())
		count_work(by_whom(WORK_FULL_OF_PROGRAM), 0, 0);
	return 0;
}

#endif
