/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* Requests in flight, by the request's address: each has one place in a small array that stays in the
 * caches; where it is taken, the request goes into a hash table.
 *
 * A queue's requests lie one behind another in memory, and those that follow each other are mostly used
 * together. So do their places: then a CPU that completes several has the next place fetched
 * while it counts this one. Spread by a hash, each place would be waited for. */
#ifndef FLIGHT_H
#define FLIGHT_H

enum { REQUEST_SHIFT = 8 }; /* no request is smaller */

inlined struct flight *flight_place(u64 key)
{
	/* The verifier lets nobody calculate with what it knows as a pointer; half of one is a number. */
	u64 half;
	u32 place;

	asm volatile("r1 = %1\n w0 = w1\n %0 = r0" : "=r"(half) : "r"(key) : "r0", "r1");
	place = (u32)half >> REQUEST_SHIFT & ((1 << FLIGHT_SHIFT) - 1);
	return map_lookup(&flight_places, &place);
}

/* Has the cache line of a request's place brought here for writing, while other work goes on: another
 * CPU had it last. Nothing waits for this store, and nobody reads what it writes. */
inlined void fetch_flight_place(u64 key)
{
	volatile struct flight *place = flight_place(key);

	if (place)
		place->zero = 0;
}

/* How many are in the hash table: mostly none, so that nobody has to search it. */
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

/* 0 if it is kept. */
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

	/* Nothing of it is read after this, on any CPU. x86 has no store overtake a load before it. */
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
