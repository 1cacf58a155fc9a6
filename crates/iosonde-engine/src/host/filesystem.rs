//! File systems by magic number and name, and how each relates to storage.

use iosonde_model::record::facts::FilesystemClass::{
    self, HostShare, Local, Memory, Network, Stacked, Unknown, UserSpace, Virtual,
};

/// Magic number (statfs(2) and the kernel's `magic.h`), the type names that use it, and the class.
/// The first name is used where the mount table has none; 0 stands for "known by name only".
const TABLE: &[(u64, &[&str], FilesystemClass)] = &[
    (0x0102_1994, &["tmpfs", "devtmpfs", "shm"], Memory),
    (0x8584_58f6, &["ramfs", "rootfs"], Memory),
    (0x9584_58f6, &["hugetlbfs"], Memory),
    (0xef53, &["ext4", "ext3", "ext2"], Local),
    (0x5846_5342, &["xfs"], Local),
    (0x9123_683e, &["btrfs"], Local),
    (0xf2f5_2010, &["f2fs"], Local),
    (0x2fc1_2fc1, &["zfs"], Local),
    (0xca45_1a4e, &["bcachefs"], Local),
    (0x3153_464a, &["jfs"], Local),
    (0x3434, &["nilfs2"], Local),
    (0x5265_4973, &["reiserfs"], Local),
    (0x2011_bab0, &["exfat"], Local),
    (0x4d44, &["vfat", "msdos"], Local),
    (0x7366_746e, &["ntfs3"], Local),
    (0x5346_544e, &["ntfs"], Local),
    (0x482b, &["hfsplus"], Local),
    (0x7371_7368, &["squashfs"], Local),
    (0x9660, &["iso9660"], Local),
    (0x1501_3346, &["udf"], Local),
    (0xe0f5_e1e2, &["erofs"], Local),
    (0x28cd_3d45, &["cramfs"], Local),
    (0x0116_1970, &["gfs2"], Network),
    (0x7461_636f, &["ocfs2"], Network),
    (0x6969, &["nfs4", "nfs"], Network),
    (0xff53_4d42, &["cifs", "smb3"], Network),
    (0xfe53_4d42, &["smb3", "cifs"], Network),
    (0x517b, &["smbfs"], Network),
    (0x00c3_6400, &["ceph"], Network),
    (0x5346_414f, &["afs"], Network),
    (0x0bd0_0bd0, &["lustre"], Network),
    (0x4750_4653, &["gpfs"], Network),
    (0x1983_0326, &["fhgfs", "beegfs"], Network),
    (0x2003_0528, &["orangefs", "pvfs2"], Network),
    (0x7375_7245, &["coda"], Network),
    (0x0102_1997, &["9p"], HostShare),
    (0x786f_4256, &["vboxsf"], HostShare),
    (0xbacb_acbc, &["vmhgfs"], HostShare),
    (0x7c7c_6673, &["prl_fs"], HostShare),
    (0x5346_4846, &["wslfs", "drvfs", "lxfs"], HostShare),
    (0x794c_7630, &["overlay", "overlayfs"], Stacked),
    (0x6175_6673, &["aufs"], Stacked),
    (0xf15f, &["ecryptfs"], Stacked),
    (0x6573_5546, &["fuse", "fuseblk", "virtiofs"], UserSpace),
    (0x9fa0, &["proc"], Virtual),
    (0x6265_6572, &["sysfs"], Virtual),
    (0x6462_6720, &["debugfs"], Virtual),
    (0x7472_6163, &["tracefs"], Virtual),
    (0x7363_6673, &["securityfs"], Virtual),
    (0x6265_6570, &["configfs"], Virtual),
    (0x0027_e0eb, &["cgroup"], Virtual),
    (0x6367_7270, &["cgroup2"], Virtual),
    (0x1cd1, &["devpts"], Virtual),
    (0x1980_0202, &["mqueue"], Virtual),
    (0xcafe_4a11, &["bpf"], Virtual),
    (0x0187, &["autofs"], Virtual),
    (0x6165_676c, &["pstore"], Virtual),
    (0xde5e_81e4, &["efivarfs"], Virtual),
    (0x4249_4e4d, &["binfmt_misc"], Virtual),
    (0x6e73_6673, &["nsfs"], Virtual),
];

/// FUSE subtypes whose files live on another machine.
const FUSE_NETWORK: &[&str] = &[
    "sshfs",
    "s3fs",
    "goofys",
    "geesefs",
    "mountpoint-s3",
    "rclone",
    "gcsfuse",
    "blobfuse",
    "blobfuse2",
    "glusterfs",
    "ceph",
    "ceph-fuse",
    "curlftpfs",
    "davfs",
    "juicefs",
    "JuiceFS",
    "mfs",
    "seaweedfs",
    "weed",
    "nfs",
    "smbnetfs",
    "google-drive-ocamlfuse",
    "onedriver",
    "hdfs",
    "fuse_dfs",
    "lizardfs",
    "saunafs",
];

/// FUSE subtypes whose files belong to the hypervisor or to another system.
const FUSE_HOST_SHARE: &[&str] =
    &["vmhgfs-fuse", "virtiofs", "osxfs", "grpcfuse", "lxcfs", "portal"];

/// Name and class of a file system from the mount table's type name (may be empty) and the magic
/// number that statfs gave.
///
/// The magic number decides, since a mount table can be stale or hidden by a later mount; the type
/// name refines it (ext3 and ext4 share a number, as do all kinds of FUSE). An unknown number with
/// a known name is classed by name; else the name is `unknown (0x…)`.
#[must_use]
pub fn filesystem_class(type_name: &str, magic: u64) -> (String, FilesystemClass) {
    // Some file systems show a 32-bit number with its sign extended.
    let magic = magic & 0xffff_ffff;
    if let Some((_, names, class)) = TABLE.iter().find(|(number, ..)| *number == magic) {
        if *class == UserSpace {
            let fuse = type_name.starts_with("fuse") || names.contains(&type_name);
            return fuse_class(if fuse { type_name } else { "fuse" });
        }
        let name = names.iter().find(|name| **name == type_name).unwrap_or(&names[0]);
        return ((*name).to_owned(), *class);
    }
    if type_name.starts_with("fuse") || type_name == "virtiofs" {
        return fuse_class(type_name);
    }
    match TABLE.iter().find(|(_, names, _)| names.contains(&type_name)) {
        Some((_, _, class)) => (type_name.to_owned(), *class),
        None if type_name.is_empty() => (format!("unknown (0x{magic:x})"), Unknown),
        None => (format!("unknown (0x{magic:x}, {type_name})"), Unknown),
    }
}

/// `fuse.sshfs` carries its subtype after the dot; `fuseblk` is a local disk served by a program.
fn fuse_class(type_name: &str) -> (String, FilesystemClass) {
    let subtype = type_name.split_once('.').map_or(type_name, |(_, subtype)| subtype);
    let class = if FUSE_NETWORK.contains(&subtype) {
        Network
    } else if FUSE_HOST_SHARE.contains(&subtype) {
        HostShare
    } else {
        UserSpace
    };
    (type_name.to_owned(), class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names() {
        let cases = [
            ("ext4", 0xef53, "ext4", Local),
            ("ext3", 0xef53, "ext3", Local),
            ("", 0xef53, "ext4", Local),
            ("tmpfs", 0x0102_1994, "tmpfs", Memory),
            ("9p", 0x0102_1997, "9p", HostShare),
            ("cifs", 0xffff_ffff_ff53_4d42, "cifs", Network),
            ("fuse.sshfs", 0x6573_5546, "fuse.sshfs", Network),
            ("fuseblk", 0x6573_5546, "fuseblk", UserSpace),
            ("virtiofs", 0x6573_5546, "virtiofs", HostShare),
            ("", 0x6573_5546, "fuse", UserSpace),
            ("overlay", 0x794c_7630, "overlay", Stacked),
            ("proc", 0x9fa0, "proc", Virtual),
            // The mount table may name a hidden file system; the number is that of the visible one.
            ("ext4", 0x0102_1994, "tmpfs", Memory),
            ("ext4", 0x6573_5546, "fuse", UserSpace),
            ("drvfs", 0x1234, "drvfs", HostShare),
            ("", 0x1234, "unknown (0x1234)", Unknown),
            ("newfs", 0x1234, "unknown (0x1234, newfs)", Unknown),
        ];
        for (type_name, magic, name, class) in cases {
            assert_eq!(filesystem_class(type_name, magic), (name.to_owned(), class), "{type_name}");
        }
    }

    #[test]
    fn every_number_stands_once_and_every_row_has_a_name() {
        for (at, (magic, names, _)) in TABLE.iter().enumerate() {
            assert!(!names.is_empty());
            assert!(TABLE[..at].iter().all(|(other, ..)| other != magic), "{names:?}");
        }
    }
}
