/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* The stacks at which followed threads make requests, and at which they block. Attached only on request:
 * taking a stack costs more than all other work for a request. */
#ifndef STACKS_H
#define STACKS_H

enum { USER_STACK = 256 };

/* Counts a stack, with this amount. */
static __attribute__((noinline)) int count_stack(struct stack_key *key, u64 amount)
{
	struct stack_use fresh = {}, *known;

	if (!key)
		return 0;
	known = map_lookup(&stacks, key);
	if (!known) {
		map_update(&stacks, key, &fresh, NOEXIST);
		known = map_lookup(&stacks, key);
	}
	if (!known) {
		COUNT(lost_stacks, 1);
		return 0;
	}
	__sync_fetch_and_add(&known->count, 1);
	__sync_fetch_and_add(&known->amount, amount);
	return 0;
}

inlined void take_stack(u64 *ctx, struct stack_key *key, u32 kind)
{
	key->tgid = current_pid_tgid() >> 32;
	key->kind = kind;
	current_comm(key->comm, sizeof(key->comm));
	key->kernel = stack_id(ctx, &frames, 0);
	key->user = stack_id(ctx, &frames, USER_STACK);
}

/* The loader attaches it to the event at which requests begin. */
SEC("tp_btf/block_io_start")
int stack_request(u64 *ctx)
{
	struct request *rq = request_of(ctx);
	struct stack_key key = {};

	if (!has_begun() || !is_followed(current_pid_tgid() >> 32) || disk_index(disk_of(rq)) < 0)
		return 0;
	take_stack(ctx, &key, STACK_OF_REQUEST);
	count_stack(&key, rq->__data_len);
	return 0;
}

/* A thread gives up its CPU to wait, not because it is preempted. A thread that continues without a
 * wake-up did not have to wait. */
SEC("tp_btf/sched_switch")
int stack_switch(u64 *ctx)
{
	struct task_struct *next = (struct task_struct *)ctx[2];
	u64 id = current_pid_tgid();
	u32 tid = (u32)id, next_tid;
	struct blocked fresh = {};

	if (!has_begun())
		return 0;
	next_tid = FIELD(next, pid);
	if (map_lookup(&blocked_threads, &next_tid))
		map_delete(&blocked_threads, &next_tid);
	if (ctx[0] || !ctx[3] || ctx[3] & TASK_DEAD || !tid || !is_followed(id >> 32))
		return 0;
	fresh.since_ns = ktime_ns();
	take_stack(ctx, &fresh.key, STACK_OF_WAIT);
	if (map_update(&blocked_threads, &tid, &fresh, ANY))
		COUNT(lost_stacks, 1);
	return 0;
}

/* The wait ends. The time until the thread gets a CPU is not part of it. */
SEC("tp_btf/sched_wakeup")
int stack_wakeup(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 tid = FIELD(task, pid);
	struct blocked ended, *blocked = map_lookup(&blocked_threads, &tid);

	if (!blocked)
		return 0;
	ended = *blocked;
	count_stack(&ended.key, ktime_ns() - ended.since_ns);
	map_delete(&blocked_threads, &tid);
	return 0;
}

#endif
