/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* System calls and io_uring requests: syncs, flags of open files, timed I/O. */
#ifndef CALLS_H
#define CALLS_H

/*
 * Every system call runs these programs. The table of constants marks the relevant ones, by their
 * numbers on this architecture. Typed tracepoints need neither a mounted tracefs nor more rights
 * than the other programs.
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
	if (thread && has_begun()) {
		u64 now = ktime_ns();

		thread->sync_since_ns = now;
		thread->call_ns = 0;
		phase_sums(now, thread->sync_phase_ns);
	}
	return 0;
}

static __attribute__((noinline)) int tally_sync(u32 kind, u32 group, u64 ns, u64 *phase_ns,
						 u32 failed)
{
	int index = slot_of(0, SYNC + kind, CLASS_PROGRAM, group);
	u32 place = index;
	struct slot *slot = index < 0 ? 0 : map_lookup(&slot_data, &place);

	if (!slot || !phase_ns) {
		COUNT(lost_syncs, 1);
		return 0;
	}
	slot->requests += 1;
	slot->errors += !!failed;
	slot->total_ns += ns;
	slot->phase_ns[0] += phase_ns[0];
	slot->phase_ns[1] += phase_ns[1];
	slot->phase_ns[2] += phase_ns[2];
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

	thread = thread_of((u32)current_pid_tgid());
	if (!thread || !thread->sync_since_ns)
		return 0;
	now = ktime_ns();
	since = thread->sync_since_ns;
	thread->sync_since_ns = 0;
	/* Completions of the sync's own writes are not completions of an I/O call. */
	thread->posted_ns = 0;
	thread->syncs += 1;
	thread->sync_ns += now - since;
	phases_since(now, now - since, thread->sync_phase_ns);
	tally_sync(kind, thread->group, now - since, thread->sync_phase_ns, result < 0);
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

/* Adds to the number of io_uring syncs in flight, and returns it. */
inlined u64 count_uring_syncs(s64 by)
{
	u32 zero = 0;
	u64 *count = map_lookup(&uring_count, &zero);

	if (!count)
		return 0;
	if (by)
		__sync_fetch_and_add(count, by);
	return *count;
}

inlined int is_uring_sync(u8 opcode)
{
	return opcode == URING_FSYNC || opcode == URING_SYNC_FILE_RANGE;
}

/* Attached only if layers are requested. */
SEC("tp_btf/io_uring_submit_req")
int uring_submit(u64 *ctx)
{
	struct io_kiocb *request = (struct io_kiocb *)ctx[0];

	if (!is_uring_sync(request->opcode))
		layer_of_submit(ctx[0]);
	return 0;
}

/* io_uring queues every sync to a worker, after the requests that it is linked to have ended. Requests
 * that the submitter completes itself, such as most reads and writes, have no such event. */
SEC("tp_btf/io_uring_queue_async_work")
int uring_queue(u64 *ctx)
{
	struct io_kiocb *request = (struct io_kiocb *)ctx[0];
	struct uring_sync sync = {};
	u64 key = ctx[0];

	if (!is_uring_sync(request->opcode) || !is_followed(current_pid_tgid() >> 32) || !has_begun())
		return 0;
	sync.since_ns = ktime_ns();
	phase_sums(sync.since_ns, sync.phase_ns);
	if (!map_update(&uring_syncs, &key, &sync, NOEXIST))
		count_uring_syncs(1);
	else if (map_update(&uring_syncs, &key, &sync, ANY))
		COUNT(lost_syncs, 1);
	return 0;
}

SEC("tp_btf/io_uring_complete")
int uring_complete(u64 *ctx)
{
	u64 key = ctx[1], now, ns;
	struct uring_sync *sync;
	struct io_kiocb *request = (struct io_kiocb *)key;
	struct thread *thread;
	s32 result = 0;
	u8 opcode;

	/* Most programs never sync by io_uring. */
	if (!wants_layers && !count_uring_syncs(0))
		return 0;
	sync = map_lookup(&uring_syncs, &key);
	if (!sync) {
		if (wants_layers)
			layer_of_completion(key);
		return 0;
	}
	opcode = FIELD(request, opcode);
	if (!is_uring_sync(opcode)) {
		/* The completion of the sync was missed, and another request has its address now. */
		map_delete(&uring_syncs, &key);
		count_uring_syncs(-1);
		return 0;
	}
	now = ktime_ns();
	ns = now - sync->since_ns;
	phases_since(now, ns, sync->phase_ns);
	/* This runs in the submitter, its worker or its polling thread, all of one process. */
	thread = this_thread();
	if (HAS(struct io_kiocb, cqe.res))
		result = FIELD(request, cqe.res);
	if (thread) {
		thread->syncs += 1;
		thread->sync_ns += ns;
	}
	tally_sync(URING_SYNC, thread ? thread->group : 0, ns, sync->phase_ns, result < 0);
	map_delete(&uring_syncs, &key);
	count_uring_syncs(-1);
	return 0;
}

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

/* A call that submits or reaps I/O begins; the next function: it returns. */
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
	struct thread *thread = thread_of((u32)current_pid_tgid());

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

#endif
