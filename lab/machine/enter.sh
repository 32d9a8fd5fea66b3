# Runs a command inside a machine.
#
# usage: enter.sh CGROUP INIT-PID COMMAND…
set -eu
for procs in /sys/fs/cgroup/*/"$1"/cgroup.procs; do
    echo $$ >"$procs"
done
pid=$2
shift 2
exec nsenter --target "$pid" --all -- "$@"
