/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Processes: the descendants of a followed one, their names and exits, and waits for I/O. */
#ifndef PROCESS_H
#define PROCESS_H

SEC("tp_btf/sched_process_fork")
int process_fork(u64 *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0];
	struct task_struct *child = (struct task_struct *)ctx[1];
	u32 tgid = FIELD(child, tgid), pid = FIELD(child, pid), one = 1;
	struct thread *former = thread_of(pid);

	/* The kernel reuses the ID, so its former thread has ended, seen or not. */
	if (former) {
		former->ended_ns = 0;
		former->generation = ~0u;
	}
	if (tgid != pid)
		return 0;
	if (is_followed(FIELD(parent, tgid))) {
		if (map_update(&followed, &tgid, &one, ANY))
			COUNT(lost_threads, 1);
	} else if (map_lookup(&followed, &tgid)) {
		map_delete(&followed, &tgid);
	}
	return 0;
}

SEC("tp_btf/task_rename")
int task_rename(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct thread *thread = thread_of(FIELD(task, pid));

	if (!thread || !thread->of_program)
		return 0;
	__builtin_memset(thread->comm, 0, sizeof(thread->comm));
	read_kernel_str(thread->comm, sizeof(thread->comm), (void *)ctx[1]);
	if (!(FIELD(task, flags) & PF_IO_WORKER))
		thread->group = group_of(thread->comm);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int process_exit(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 tgid = FIELD(task, tgid), tid = FIELD(task, pid), *alive;
	struct signal_struct *signal;
	struct thread *thread;

	/* User space removes the thread from the table. */
	thread = thread_of(tid);
	if (thread)
		thread->ended_ns = ktime_ns();
	alive = map_lookup(&followed, &tgid);
	if (!alive)
		return 0;
	COUNT(ended_threads, 1);
	if (HAS(struct task_struct, ioac) && HAS(struct task_io_accounting, rchar)) {
		COUNT(calls_read, FIELD(task, ioac.syscr));
		COUNT(calls_write, FIELD(task, ioac.syscw));
		COUNT(bytes_read, FIELD(task, ioac.rchar));
		COUNT(bytes_written, FIELD(task, ioac.wchar));
		COUNT(storage_read, FIELD(task, ioac.read_bytes));
		COUNT(storage_written, FIELD(task, ioac.write_bytes));
		COUNT(cancelled, FIELD(task, ioac.cancelled_write_bytes));
	}
	if (!counts_waits && HAS(struct task_struct, delays)) {
		struct task_delay_info *delays = FIELD(task, delays);

		if (delays)
			COUNT(io_delay_ns, FIELD(delays, blkio_delay));
	}
	if (HAS(struct task_struct, sched_info) && HAS(struct sched_info, run_delay))
		COUNT(run_delay_ns, FIELD(task, sched_info.run_delay));
	signal = FIELD(task, signal);
	if (signal && FIELD(signal, live.counter) == 0)
		*alive = 0;
	return 0;
}

/* A bit field: its neighbours are shifted out. No helper is called, because this runs at each switch. */
inlined int waits_for_io(struct task_struct *task)
{
	u64 bits;

	if (!HAS(struct task_struct, in_iowait))
		return 0;
	bits = *(u32 *)((void *)task + __builtin_preserve_field_info(task->in_iowait, 0));
	bits <<= __builtin_preserve_field_info(task->in_iowait, 4);
	return bits >> __builtin_preserve_field_info(task->in_iowait, 5) != 0;
}

static __attribute__((noinline)) int wait_begins(void)
{
	struct thread *thread = counted_thread();

	if (thread)
		thread->wait_since_ns = ktime_ns();
	return 0;
}

static __attribute__((noinline)) int wait_ends(u32 tid, u32 was_woken)
{
	struct thread *thread = thread_of(tid);

	if (!thread || !thread->wait_since_ns)
		return 0;
	if (was_woken)
		COUNT(io_delay_ns, ktime_ns() - thread->wait_since_ns);
	thread->wait_since_ns = 0;
	return 0;
}

/* Context switches from and to threads that wait for I/O, by `in_iowait`. A preempted thread does not wait
 * yet; a thread that continues without a wake-up did not have to wait. */
SEC("tp_btf/sched_switch")
int io_wait(u64 *ctx)
{
	struct task_struct *next = (struct task_struct *)ctx[2];

	if (!ctx[0] && waits_for_io((struct task_struct *)ctx[1]))
		wait_begins();
	if (waits_for_io(next))
		wait_ends(next->pid, 0);
	return 0;
}

/* After its wake-up a thread waits for a CPU, on a busy machine much longer than for I/O. */
SEC("tp_btf/sched_wakeup")
int io_wait_over(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];

	if (waits_for_io(task))
		wait_ends(task->pid, 1);
	return 0;
}

#endif
