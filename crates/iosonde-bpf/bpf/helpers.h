/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* The kernel's helper functions that are called here, by their numbers, and words for the loader. */
#ifndef HELPERS_H
#define HELPERS_H

#include "kernel.h"

#define SEC(name) __attribute__((section(name), used))
/* What every request passes: where the kernel guards its returns, a call takes 5 to 15 ns. */
#define inlined static inline __attribute__((always_inline))
/* What few pass, or what has too many ways for the verifier to follow in line. Not static: it looks at it
 * once, on its own, not at each call. Pointers to structures may then be null for all it knows. */
#define apart __attribute__((noinline))

/* A map as the loader finds it: a number is the length of an array type, a type is a pointer. */
#define NUMBER(name, value) int (*name)[value]
#define TYPE(name, type) typeof(type) *name

enum {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_ARRAY = 6,
	MAP_STACK_TRACE = 7,
	MAP_LRU_HASH = 9,
	MAP_QUEUE = 22,
};

enum { ANY = 0, NOEXIST = 1 };

enum { MMAPABLE = 1 << 10 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const ktime_ns)(void) = (void *)5;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static long (*const current_comm)(void *to, u32 size) = (void *)16;
static long (*const stack_id)(void *context, void *map, u64 flags) = (void *)27;
static struct task_struct *(*const current_task)(void) = (void *)35;
static long (*const map_push)(void *map, const void *value, u64 flags) = (void *)87;
static long (*const map_pop)(void *map, void *value) = (void *)88;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;

static long (*const print)(char *to, u32 size, const char *format, u64 *values, u32 bytes) = (void *)165;

/* `bpf_rdonly_cast`, whose number differs between kernels: the loader puts it in place of this one. */
static void *(*const cast_to)(const void *address, u32 type) = (void *)0x10ad;
const volatile u32 has_cast = 0; /* whether the kernel has it, since Linux 6.2 */

/* Numbers of the types to which it casts. */
const volatile u32 type_address_space = 0, type_bio_vec = 0, type_blkdev_dio = 0, type_file = 0,
		   type_inode = 0, type_iomap_dio = 0, type_kiocb = 0, type_request = 0;

#define TYPE_OF(pointer)                                    \
	_Generic((pointer),                                 \
		struct address_space *: type_address_space, \
		struct bio_vec *: type_bio_vec,             \
		struct blkdev_dio *: type_blkdev_dio,       \
		struct file *: type_file,                   \
		struct inode *: type_inode,                 \
		struct iomap_dio *: type_iomap_dio,         \
		struct kiocb *: type_kiocb,                 \
		struct request *: type_request)

/* A field behind a pointer that the verifier does not know; zero if it cannot be read. */
#define FIELD(pointer, field)                                                              \
	({                                                                                 \
		typeof((pointer)->field) _value = {0};                                     \
		read_kernel(&_value, sizeof(_value),                                       \
			    __builtin_preserve_access_index(&(pointer)->field));           \
		_value;                                                                    \
	})

/* The same without a call, where the kernel lets the verifier take an address for a pointer to the type
 * that it is said to be: the verifier removes the cast, and what cannot be read is zero. A pointer that
 * is read so is one to the verifier, too. */
#define READ(pointer, field)                                                               \
	({                                                                                 \
		typeof((pointer)->field) _field;                                           \
		if (has_cast)                                                              \
			_field = ((typeof(pointer))cast_to(pointer, TYPE_OF(pointer)))     \
					 ->field;                                          \
		else                                                                       \
			_field = FIELD(pointer, field);                                    \
		_field;                                                                    \
	})

/* A pointer as a number for the verifier, which lets nobody hand on a pointer instead of one. */
inlined u64 number_of(const void *pointer)
{
	u64 number = 0;

	read_kernel(&number, sizeof(number), &pointer);
	return number;
}

/* Whether the running kernel has this field, and where in its structure. */
#define HAS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)
#define OFFSET(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
#define ENUM_VALUE(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 1)

#endif
