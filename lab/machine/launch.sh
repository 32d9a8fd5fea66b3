# Starts a machine: joins its cgroup, leaves the host's namespaces, boots.
#
# usage: launch.sh CGROUP BOOT-SCRIPT ARGUMENT…
set -eu
for procs in /sys/fs/cgroup/*/"$1"/cgroup.procs; do
    echo $$ >"$procs"
done
boot=$2
shift 2
exec unshare --mount --net --uts --ipc --pid --cgroup --fork --propagation private \
    sh -c "$boot" boot "$@"
