#!/bin/busybox sh
# The first process of a guest. Loads the modules of /etc/modules, and runs the scripts that come
# through the port `control`: their length in a line, then their text. Answers with a line, `EXIT
# STDOUT-BYTES STDERR-BYTES`, and both outputs. Without its host it turns the power off.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp XDG_STATE_HOME=/tmp TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
while read -r module; do
    insmod "/lib/$module" || echo "cannot load $module"
done </etc/modules
mkdir /run/port
for port in /sys/class/virtio-ports/*; do
    ln -s "/dev/${port##*/}" "/run/port/$(cat "$port/name")"
done
cd /tmp
exec 3<>/run/port/control
echo ready >&3
while read -r bytes <&3; do
    head -c "$bytes" <&3 >/run/script
    sh /run/script </dev/null >/run/stdout 2>/run/stderr 3>&-
    echo "$? $(wc -c </run/stdout) $(wc -c </run/stderr)" >&3
    cat /run/stdout /run/stderr >&3
done
poweroff -f
