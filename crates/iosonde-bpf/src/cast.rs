//! The kernel function that tells the verifier an address is a pointer to a type: memory behind it
//! is then read by one instruction, not by a helper call. It is called by the number of its BTF
//! type, which differs between kernels.

/// A call of the function in the object: the number is in the last four bytes (`cast_to` in
/// `bpf/helpers.h`).
const CALL: [u8; 8] = [0x85, 0, 0, 0, 0xad, 0x10, 0, 0];
/// Source register value (second byte) of a call to a kernel function by its BTF number.
const OF_KERNEL: u8 = 0x20;

/// Constants in the programs: type numbers of the structures used in casts.
pub(crate) const TYPES: [&str; 8] = [
    "type_address_space",
    "type_bio_vec",
    "type_blkdev_dio",
    "type_file",
    "type_inode",
    "type_iomap_dio",
    "type_kiocb",
    "type_request",
];

/// The object with this number in each call.
pub(crate) fn with(object: &[u8], number: u32) -> Vec<u8> {
    let mut object = object.to_vec();
    for instruction in object.as_chunks_mut().0 {
        if *instruction == CALL {
            instruction[1] = OF_KERNEL;
            instruction[4..].copy_from_slice(&number.to_le_bytes());
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_gets_the_number() {
        let other = [0x85, 0, 0, 0, 0x70, 0, 0, 0];
        let object = [CALL, other, CALL].concat();
        let call = [0x85, 0x20, 0, 0, 4, 3, 2, 1];
        assert_eq!(with(&object, 0x0102_0304), [call, other, call].concat());
        assert_ne!(with(crate::OBJECT, 1), crate::OBJECT, "the programs have calls of it");
    }
}
