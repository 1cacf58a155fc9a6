/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Time of an I/O call outside the block layer and the device. */
#ifndef LAYERS_H
#define LAYERS_H

static __attribute__((noinline)) int tally_layer(u32 layer, u64 ns)
{
	u32 zero = 0, bucket = bucket_of(ns >> TIME_SHIFT, TIME_BUCKETS);
	struct layers *layers = map_lookup(&layer_data, &zero);

	if (!layers || layer >= LAYERS || bucket >= TIME_BUCKETS)
		return 0;
	layers->calls[layer] += 1;
	layers->sum_ns[layer] += ns;
	layers->time[layer][bucket] += 1;
	return 0;
}

/* The call's request has reached the block layer. I/O throttling delays it before that. */
inlined void layer_of_begin(struct flight *flight, u64 call, u64 now)
{
	struct submitted *submitted = call ? map_lookup(&submits, &call) : 0;
	u64 since = 0;

	if (submitted) {
		since = submitted->submit_ns;
	} else {
		struct thread *thread = thread_of(flight->tid);

		since = thread ? thread->call_ns : 0;
	}
	if (since && since <= now)
		tally_layer(LAYER_BEFORE, now - since);
}

inlined void layer_of_end(struct flight *flight, u64 call, u64 now)
{
	struct submitted *submitted = call ? map_lookup(&submits, &call) : 0;

	if (submitted) {
		submitted->end_ns = now;
	} else {
		struct thread *thread = thread_of(flight->tid);

		if (thread && !thread->posted_ns)
			thread->posted_ns = now;
	}
}

#endif
