/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/* The kernel's helper functions, by their numbers, and macros for the loader. */
#ifndef HELPERS_H
#define HELPERS_H

#include "kernel.h"

#define SEC(name) __attribute__((section(name), used))
/* For code that every request runs: a call takes 5 to 15 ns where the kernel uses return thunks. */
#define inlined static inline __attribute__((always_inline))
/* For rare code, or code with too many paths for the verifier to follow inline. Not static, so that the
 * verifier checks it once, not at each call; it then assumes that pointers to structures may be NULL. */
#define apart __attribute__((noinline))

/* Attributes of a map as the loader reads them: a number is the length of an array type, a type is a
 * pointer. */
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

/* `bpf_rdonly_cast`. Its number differs between kernels, so the loader replaces this one. */
static void *(*const cast_to)(const void *address, u32 type) = (void *)0x10ad;
const volatile u32 has_cast = 0; /* whether the kernel has it (6.2 or newer) */

/* BTF IDs of the types that it casts to. */
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

/* Reads a field through a pointer that the verifier does not know; zero if it cannot be read. */
#define FIELD(pointer, field)                                                              \
	({                                                                                 \
		typeof((pointer)->field) _value = {0};                                     \
		read_kernel(&_value, sizeof(_value),                                       \
			    __builtin_preserve_access_index(&(pointer)->field));           \
		_value;                                                                    \
	})

/* The same without a call, where the kernel has `bpf_rdonly_cast`: the verifier removes the cast, and an
 * unreadable field is zero. The verifier also treats a pointer that is read this way as a pointer. */
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

/* A pointer as a number: the verifier rejects a pointer as an argument that is declared as a number. */
inlined u64 number_of(const void *pointer)
{
	u64 number = 0;

	read_kernel(&number, sizeof(number), &pointer);
	return number;
}

/* Whether the running kernel has this field, and its offset in the structure. */
#define HAS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)
#define OFFSET(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
#define ENUM_VALUE(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 1)

#endif
