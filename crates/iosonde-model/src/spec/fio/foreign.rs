//! Engines and options of fio that are not supported, each with an alternative.

use super::table::{Family, Stand};
use super::value::Kind;

/// Unsupported engines with their alternatives.
const ENGINES: &[(&str, &str)] = &[
    ("exec", "it runs a program, which is not done here"),
    ("cpuio", "it burns processor time and does no I/O"),
    ("splice sg", "give ioengine=psync with direct=1: reads and writes of the same device"),
    ("xnvme", XNVME),
    ("libblkio", LIBBLKIO),
    ("http", HTTP),
    ("nfs", NFS),
    ("net netsplice rdma", NETWORK),
    ("rbd rados", CEPH),
    ("gfapi gfapi_async", "mount the volume, and name a file on it"),
    ("libhdfs", HDFS),
    ("dfs", DAOS),
    ("ime ime_psync ime_psyncv ime_aio", "mount it, and name a file on it"),
    ("libiscsi", "log in with iscsiadm, and name the disk that appears"),
    ("nbd", NBD),
    ("libzbc", "name the device with ioengine=psync; writes keep to no zones"),
    ("libpmem dev-dax", "give ioengine=mmap on a file of a file system that is mounted with dax"),
    ("libcufile libhipfile", GPU),
    ("mtd", "name the block device /dev/mtdblockN instead"),
    ("e4defrag falloc ftruncate", NO_DATA),
    ("filecreate filestat filedelete dircreate dirstat dirdelete", NO_DATA),
    ("page_fault", "it touches memory and does no I/O; ioengine=mmap reads and writes a file"),
    ("cpp_null skeleton_external", "it is a template for writers of engines; give ioengine=null"),
    ("windowsaio solarisaio", "it is of another system; give ioengine=libaio or io_uring"),
];

const BSG: &str = "only NVMe commands are sent; give ioengine=psync with direct=1 and the block \
    device";
const METADATA: &str = "namespaces with metadata for each block are not supported";
const OTHER_COMMANDS: &str = "commands are read, write, dataset management and flush";
const PLACEMENT: &str = "no placement is named, and a command trims one range";
const XNVME: &str = "give ioengine=io_uring or libaio on the block device";
const LIBBLKIO: &str = "give ioengine=io_uring on the device; `iosonde run --ioengine \
    virtio-blk-vhost-user` drives a vhost-user-blk server";
const HTTP: &str = "mount the store as a file system, and name a file on it";
const NFS: &str = "mount the export, and name a file on it";
const NETWORK: &str = "it measures a network; this program measures storage";
const CEPH: &str = "map the image with `rbd map`, and name the device /dev/rbdN";
const HDFS: &str = "mount it, and name a file on it";
const DAOS: &str = "mount the container with dfuse, and name a file on it";
const NBD: &str = "connect it with nbd-client, and name the device /dev/nbdN";
const GPU: &str = "buffers are in main memory; give ioengine=libaio or io_uring";
const NO_DATA: &str = "it moves no data; `iosonde profile -- COMMAND` shows what such work costs";
const PROFILES: &str = "it belongs to one of fio's built-in profiles (act, tiobench); write its \
    jobs as a job file";

/// Options of unsupported engines.
#[rustfmt::skip]
pub(super) const FAMILIES: &[Family] = &[
    (Stand::Refused(HTTP), Kind::Text,
        "http_host http_user http_pass http_s3_key http_s3_keyid http_s3_region \
         http_s3_security_token http_s3_sse_customer_algorithm http_s3_sse_customer_key \
         http_s3_storage_class http_swift_auth_token http_mode http_object_mode http_verbose \
         https"),
    (Stand::Refused(LIBBLKIO), Kind::Text,
        "libblkio_driver libblkio_path libblkio_pre_connect_props libblkio_pre_start_props \
         libblkio_num_entries libblkio_queue_size libblkio_vectored \
         libblkio_write_zeroes_on_trim libblkio_wait_mode \
         libblkio_force_enable_completion_eventfd"),
    (Stand::Refused(NFS), Kind::Text, "nfs_url"),
    (Stand::Refused("log in with iscsiadm, and name the disk that appears"), Kind::Text,
        "initiator"),
    (Stand::Refused(NBD), Kind::Text, "uri"),
    (Stand::Refused(CEPH), Kind::Text,
        "clustername pool clientname conf busy_poll touch_objects rbdname rbd_encryption_format \
         rbd_encryption_passphrase"),
    (Stand::Refused(NETWORK), Kind::Text,
        "hostname port protocol nodelay listen pingpong interface ttl window_size mss bindname \
         verb"),
    (Stand::Refused("mount the volume, and name a file on it"), Kind::Text, "volume brick"),
    (Stand::Refused(HDFS), Kind::Text,
        "namenode hdfsdirectory hdfs_use_direct chunk_size single-instance"),
    (Stand::Refused(DAOS), Kind::Text, "cont svcl object_class"),
    (Stand::Refused(GPU), Kind::Text, "gpu_dev_id cuda_io rocm_io"),
    (Stand::Refused(XNVME), Kind::Text,
        "xnvme_admin xnvme_async xnvme_be xnvme_dev_nsid xnvme_dev_subnqn xnvme_iovec xnvme_mem \
         xnvme_sync"),
    (Stand::Only(&["nvme"], BSG), Kind::Word(&["nvme", "bsg"]), "cmd_type"),
    (Stand::Refused(BSG), Kind::Text, "cdb_len"),
    (Stand::Only(&["0"], METADATA), Kind::Count, "md_per_io_size"),
    (Stand::Refused(METADATA), Kind::Text, "pi_act pi_chk apptag apptag_mask"),
    (Stand::Refused(OTHER_COMMANDS), Kind::Text, "deac verify_mode read_mode"),
    (Stand::Only(&["write"], OTHER_COMMANDS), Kind::Text, "write_mode"),
    (Stand::Refused(PLACEMENT), Kind::Text,
        "fdp dataplacement plids plid_select dp_scheme num_range"),
    (Stand::Refused("give ioengine=psync and the block device"), Kind::Text,
        "sg_write_mode verify_bytchk stream_id"),
    (Stand::Refused(NO_DATA), Kind::Text, "donorname inplace stat_type dir"),
    (Stand::Refused("the whole file is used, on every kind of device"), Kind::Text, "skip_bad"),
    (Stand::Refused("it burns processor time and does no I/O"), Kind::Text,
        "cpuload cpuchunks cpumode exit_on_io_done"),
    (Stand::Refused("it is of another system"), Kind::Text, "no_completion_thread"),
    (Stand::Refused(PROFILES), Kind::Text,
        "device-names test-duration threads-per-queue read-req-num-512-blocks \
         large-block-op-kbytes prep numruns load num-write-blocks"),
];

/// The alternative to an unsupported engine of fio; `None` if fio has no such engine.
pub(super) fn instead(engine: &str) -> Option<&'static str> {
    if engine.starts_with("external") {
        return Some("it loads foreign code, which is not done here");
    }
    let is_it = |names: &str| names.split_whitespace().any(|name| name == engine);
    ENGINES.iter().find(|(names, _)| is_it(names)).map(|(_, instead)| *instead)
}
