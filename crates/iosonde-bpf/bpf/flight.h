/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Requests in flight, by the request's address. Each has one entry in a small array that stays in the CPU
 * caches; if the entry is taken, the request goes into a hash table.
 *
 * Requests of a queue are adjacent in memory, and neighbours are mostly used together. Their entries are
 * adjacent, too, so that a CPU that completes several prefetches the next entry while it counts this one.
 * If a hash spread the entries, each would be a cache miss. */
#ifndef FLIGHT_H
#define FLIGHT_H

enum { REQUEST_SHIFT = 8 }; /* 2^8 bytes: no `struct request` is smaller */

inlined struct flight *flight_place(u64 key)
{
	/* The verifier rejects arithmetic on a known pointer; the low half of one is a number. */
	u64 half;
	u32 place;

	asm volatile("r1 = %1\n w0 = w1\n %0 = r0" : "=r"(half) : "r"(key) : "r0", "r1");
	place = (u32)half >> REQUEST_SHIFT & ((1 << FLIGHT_SHIFT) - 1);
	return map_lookup(&flight_places, &place);
}

/* Prefetches the cache line of a request's entry for writing, because another CPU used it last. Nothing
 * waits for this store, and nothing reads the field. */
inlined void fetch_flight_place(u64 key)
{
	volatile struct flight *place = flight_place(key);

	if (place)
		place->zero = 0;
}

/* Number of requests in the hash table: mostly 0, so that no search is needed. */
inlined u64 *flights_hashed(void)
{
	u32 zero = 0;

	return map_lookup(&flight_count, &zero);
}

inlined struct flight *flight_of(u64 key)
{
	struct flight *flight = flight_place(key);
	u64 *hashed;

	if (flight && flight->key == key)
		return flight;
	hashed = flights_hashed();
	return hashed && *hashed ? map_lookup(&flights, &key) : 0;
}

/* Stores a request in flight. Returns 0 if there was room. */
inlined int keep_flight(u64 key, struct flight *flight)
{
	struct flight *place = flight_place(key);
	u64 *hashed;

	if (place && !place->key && !__sync_val_compare_and_swap(&place->key, 0, key)) {
		flight->key = key;
		*place = *flight;
		return 0;
	}
	hashed = flights_hashed();
	if (!hashed)
		return -1;
	flight->key = 0;
	__sync_fetch_and_add(hashed, 1);
	if (!map_update(&flights, &key, flight, NOEXIST))
		return 0;
	__sync_fetch_and_add(hashed, -1);
	return -1;
}

inlined void drop_flight(u64 key, struct flight *flight)
{
	u64 *hashed;

	/* No CPU reads the entry after this. On x86 no store overtakes an earlier load. */
	if (flight->key == key) {
		if (HAS(struct pt_regs___x86, di))
			*(volatile u64 *)&flight->key = 0;
		else
			__sync_lock_test_and_set(&flight->key, 0);
		return;
	}
	hashed = flights_hashed();
	if (!map_delete(&flights, &key) && hashed)
		__sync_fetch_and_add(hashed, -1);
}

#endif
