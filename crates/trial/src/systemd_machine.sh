# A machine in separate namespaces: a root of its own with this machine's /usr read-only in it, and systemd as its first process.
# $1: the machine's folder, $2: the program under test, $3: what becomes the first process, $4: inside once we are inside.
set -eu
box=$1
if [ "${4:-}" != inside ]; then
    # Whatever runs in there stays below this one.
    group=$(cat "$box/group")
    mkdir -p "$group"
    echo $$ > "$group/cgroup.procs"
    exec unshare --pid --fork --mount --propagation private --uts --ipc --cgroup --kill-child \
        sh "$box/systemd_machine.sh" "$1" "$2" "$3" inside
fi

root=$box/root
mkdir -p "$root"
cd "$root"
mkdir -p etc/systemd/system var/lib var/log opt usr/local proc sys run tmp dev root boot mnt
for name in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$name" ] && [ ! -L "$name" ]; then ln -s "$(readlink "/$name")" "$name"; fi
done
for name in passwd group nsswitch.conf ld.so.cache; do
    if [ -e "/etc/$name" ] && [ ! -e "etc/$name" ]; then cp "/etc/$name" "etc/$name"; fi
done
[ -e etc/machine-id ] || tr -d - < /proc/sys/kernel/random/uuid > etc/machine-id
[ -L var/run ] || ln -s /run var/run
touch opt/program

mount --bind "$root" "$root"
cd "$root"
# Of /usr only what is the owner's own can be written.
mount --bind usr/local mnt
mount --rbind /usr usr
mount -o remount,bind,ro usr
mount --bind mnt usr/local
umount mnt
mount --bind "$2" opt/program
mount -t tmpfs -o mode=755,size=64m tmpfs run
mount -t tmpfs -o size=64m tmpfs tmp
mount -t tmpfs -o mode=755,size=1m tmpfs dev
mkdir dev/shm dev/pts
for name in null zero full random urandom tty; do
    touch "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done

# Every boot has an id of its own, and none of them may change the kernel that is under all of them.
mount -t proc proc proc
cat /proc/sys/kernel/random/uuid > run/boot_id
mount --bind proc/sys proc/sys
mount --bind run/boot_id proc/sys/kernel/random/boot_id
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs -o mode=755,size=1m tmpfs sys/fs/cgroup
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi

# Of all that the distribution starts at boot, nothing: only the bus, and what a test adds.
mkdir run/nothing
for name in sysinit local-fs sockets timers multi-user; do
    if [ -d "usr/lib/systemd/system/$name.target.wants" ]; then
        mount --bind run/nothing "usr/lib/systemd/system/$name.target.wants"
    fi
done
cat > etc/systemd/system/machine.target <<UNIT
[Unit]
Requires=dbus.socket up.service
Wants=multi-user.target
After=dbus.socket up.service multi-user.target
UNIT
cat > etc/systemd/system/up.service <<UNIT
[Unit]
After=dbus.socket multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo up > /run/machine-state'
UNIT
touch run/machine-state
mount --bind "$box/state" run/machine-state

mkdir run/before
pivot_root . run/before
umount -l run/before
rmdir run/before
hostname machine
cd /
exec env -i container=seaworthy-trial PATH=/usr/sbin:/usr/bin:/sbin:/bin "$3" --system --unit=machine.target --show-status=no
