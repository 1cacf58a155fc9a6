/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* The thread that makes a request, its disk, and where it is counted. */
#ifndef WHO_H
#define WHO_H

inlined u32 generation(void)
{
	u32 zero = 0;
	u32 *control_of = map_lookup(&control, &zero);

	return control_of ? *control_of : 0;
}

inlined int has_begun(void)
{
	u32 zero = 0;
	u32 *control_of = map_lookup(&control, &zero);

	return control_of && control_of[1];
}

inlined int is_followed(u32 tgid)
{
	u32 *alive = map_lookup(&followed, &tgid);

	return alive && *alive;
}

/* The entry of a thread, or NULL. `threads_seen` caches its index, which mostly saves the search in
 * `threads`. An ended thread is not taken from the cache: its entry may belong to another. */
inlined struct thread *thread_of(u32 tid)
{
	u32 index = tid & ((1 << SEEN_SHIFT) - 1), place, *known, *seen;
	struct thread *thread;

	seen = map_lookup(&threads_seen, &index);
	if (!seen)
		return 0;
	place = *seen;
	if (place) {
		thread = map_lookup(&thread_data, &place);
		if (thread && thread->tid == tid && !thread->ended_ns)
			return thread;
	}
	known = map_lookup(&threads, &tid);
	if (!known)
		return 0;
	place = *known;
	*seen = place;
	return map_lookup(&thread_data, &place);
}

/* The number of a thread name; 0 if all numbers are taken. */
static __attribute__((noinline)) u32 group_of(char *comm)
{
	char key[16];
	u32 zero = 0, number, *known, *count;

	if (!comm || read_kernel(key, sizeof(key), comm))
		return 0;
	known = map_lookup(&groups, key);
	if (known)
		return *known;
	count = map_lookup(&group_count, &zero);
	if (!count || *count >= GROUPS - 1)
		return 0;
	number = __sync_fetch_and_add(count, 1) + 1;
	if (number >= GROUPS)
		return 0;
	/* Another CPU may have added it first. */
	map_update(&groups, key, &number, NOEXIST);
	known = map_lookup(&groups, key);
	return known ? *known : 0;
}

/* The thread that an io_uring worker works for, by the ID in the worker's name (`iou-wrk-4711`). */
inlined struct thread *master_of(char *comm)
{
	u32 tid = 0;
	char name[16];

	if (read_kernel(name, sizeof(name), comm))
		return 0;
#pragma unroll
	for (int at = 8; at < 15; at++) {
		if (name[at] < '0' || name[at] > '9')
			break;
		tid = tid * 10 + (name[at] - '0');
	}
	return thread_of(tid);
}

/* The group of the running thread. An io_uring worker has the group of the thread that it works for, or
 * of its process. */
static __attribute__((noinline)) u32 group_of_thread(char *comm)
{
	struct task_struct *task = current_task(), *leader;
	struct thread *master;

	if (!comm)
		return 0;
	if (!(FIELD(task, flags) & PF_IO_WORKER))
		return group_of(comm);
	master = master_of(comm);
	if (master)
		return master->group;
	leader = FIELD(task, group_leader);
	return group_of((char *)__builtin_preserve_access_index(&leader->comm));
}

/* Adds an entry for the running thread; NULL if the table is full. */
static __attribute__((noinline)) struct thread *new_thread(void)
{
	u64 id = current_pid_tgid();
	u32 tid = (u32)id, tgid = id >> 32, zero = 0, place;
	struct thread *thread = 0, *fresh = map_lookup(&thread_scratch, &zero);
	struct task_struct *task = current_task();

	if (!fresh)
		return 0;
	__builtin_memset(fresh, 0, sizeof(*fresh));
	fresh->tid = tid;
	fresh->tgid = tgid;
	fresh->generation = generation();
	fresh->of_program = is_followed(tgid);
	fresh->of_kernel = !!(FIELD(task, flags) & PF_KTHREAD);
	current_comm(fresh->comm, sizeof(fresh->comm));
	if (fresh->of_program)
		fresh->group = group_of_thread(fresh->comm);
	place = free_place(&thread_free, &thread_count, THREAD_PLACES);
	if (place) {
		map_update(&thread_data, &place, fresh, ANY);
		/* An interrupt may have added it first. */
		if (map_update(&threads, &tid, &place, NOEXIST))
			map_push(&thread_free, &place, ANY);
		thread = thread_of(tid);
	}
	if (!thread)
		COUNT(lost_threads, 1);
	return thread;
}

/* Updates an entry: its ID belongs to another thread now, or the set of followed processes changed. */
static __attribute__((noinline)) int renew_thread(struct thread *thread)
{
	u32 tgid = current_pid_tgid() >> 32;

	thread->generation = generation();
	thread->inode = 0;
	thread->tgid = tgid;
	thread->of_program = is_followed(tgid);
	current_comm(thread->comm, sizeof(thread->comm));
	thread->group = thread->of_program ? group_of_thread(thread->comm) : 0;
	return 0;
}

/* The running thread's entry, added if it is missing; NULL if the table is full. */
static __attribute__((noinline)) struct thread *this_thread(void)
{
	struct thread *thread = thread_of((u32)current_pid_tgid());

	if (!thread)
		return new_thread();
	if (thread->generation != generation())
		renew_thread(thread);
	return thread;
}

/* The running thread's entry, if counting has begun and it is the program's. Others get no entry. */
inlined struct thread *counted_thread(void)
{
	u64 id = current_pid_tgid();
	u32 zero = 0, *control_of = map_lookup(&control, &zero);
	struct thread *thread;

	if (!control_of || !control_of[1])
		return 0;
	thread = thread_of((u32)id);
	if (thread && thread->generation == control_of[0])
		return thread->of_program ? thread : 0;
	if (!is_followed(id >> 32))
		return 0;
	if (!thread)
		return new_thread();
	renew_thread(thread);
	return thread;
}

inlined u32 disk_of(struct request *rq)
{
	struct gendisk *disk = rq->q->disk;

	/* A queue without a disk carries only commands of the driver. */
	return disk ? disk->part0->bd_dev : 0;
}

/* The number of a watched disk, or -1. */
static __attribute__((noinline)) int disk_index(u32 disk)
{
	u32 zero = 0, number, *known, *count;

	if (!disk)
		return -1;
	known = map_lookup(&disks, &disk);
	if (known)
		return *known < DISKS ? (int)*known : -1;
	if (!watches_all)
		return -1;
	count = map_lookup(&disk_count, &zero);
	if (!count || *count >= DISKS)
		return -1;
	number = __sync_fetch_and_add(count, 1);
	if (number >= DISKS)
		return -1;
	/* Another CPU may have added it first. */
	map_update(&disks, &disk, &number, NOEXIST);
	known = map_lookup(&disks, &disk);
	return known && *known < DISKS ? (int)*known : -1;
}

/* The index of a slot, or -1. */
static __attribute__((noinline)) int slot_of(u32 disk, u32 op, u32 class, u32 group)
{
	struct slot_key key = { .disk = disk, .op = op, .class = class, .group = group };
	u32 zero = 0, number, *known, *count;

	known = map_lookup(&slots, &key);
	if (known)
		return *known < SLOTS ? (int)*known : -1;
	count = map_lookup(&slot_count, &zero);
	if (!count || *count >= SLOTS)
		return -1;
	number = __sync_fetch_and_add(count, 1);
	if (number >= SLOTS)
		return -1;
	/* Another CPU may have added it first. */
	map_update(&slots, &key, &number, NOEXIST);
	known = map_lookup(&slots, &key);
	return known && *known < SLOTS ? (int)*known : -1;
}

/* The index at which a cgroup is counted; 0 if the table is full. */
static __attribute__((noinline)) u32 place_of_cgroup(u64 cgroup)
{
	u32 zero = 0, place, *known, *count;

	known = map_lookup(&cgroups, &cgroup);
	if (known)
		return *known;
	count = map_lookup(&cgroup_count, &zero);
	if (!count || *count >= CGROUPS_KEPT - 1)
		return 0;
	place = __sync_fetch_and_add(count, 1) + 1;
	if (place >= CGROUPS_KEPT)
		return 0;
	/* Another CPU may have added it first. */
	map_update(&cgroups, &cgroup, &place, NOEXIST);
	known = map_lookup(&cgroups, &cgroup);
	return known ? *known : 0;
}

/* The same, reused from the thread's last request if that has the same cgroup. */
inlined u32 cgroup_of_thread(struct thread *thread, u64 cgroup)
{
	u32 place;

	if (thread && thread->cgroup == cgroup)
		return thread->cgroup_place;
	place = cgroup ? place_of_cgroup(cgroup) : 0;
	if (thread && place) {
		thread->cgroup = cgroup;
		thread->cgroup_place = place;
	}
	return place;
}

#endif
