# First process of a lab machine, started in new mount, network, UTS, IPC, PID
# and cgroup namespaces. It makes the machine's own view of the file system and
# then becomes its init.
#
# usage: boot.sh DIR NAME BIN [PATH…]
#   DIR    the machine's directory: fs/ (its /var, /opt and /run), upper/ (what
#          differs in its /etc and /usr/libexec), sysctl/; the host's id of this process is written to
#          DIR/init.pid once the machine stands
#   BIN    the lab's programs, to be seen at /opt/lab/bin
#   PATH…  host directories that the machine sees at the same place
set -eu
dir=$1 name=$2 bin=$3
shift 3
fs=$dir/fs

# Opened now because DIR is out of sight once the machine has its own /var. The
# old /proc still shows the host's process ids.
exec 9>"$dir/init.pid"
read -r pid _ </proc/self/stat

hostname "$name"
ip link set lo up

# /run, /var and /opt are the machine's own; what it shall see of the host's is
# bound into them before they cover the host's.
mkdir -p "$fs/run" "$fs/var/lib" "$fs/var/log" "$fs/var/tmp" "$fs/opt/lab/bin"
mount -t tmpfs -o mode=755 run "$fs/run"
ln -sfn /run "$fs/var/run"
for path in "$@"; do
    case $path in
    /run/* | /var/* | /opt/*)
        mkdir -p "$fs$path"
        mount --bind "$path" "$fs$path"
        ;;
    esac
done
mount --bind "$bin" "$fs/opt/lab/bin"

# Below /etc and /usr/libexec the machine sees the host's files and its own over
# them (a kubelet makes its plugin directory in the latter).
for tree in etc usr/libexec; do
    mkdir -p "$dir/upper/$tree" "$dir/work/$tree"
    mount -t overlay -o "lowerdir=/$tree,upperdir=$dir/upper/$tree,workdir=$dir/work/$tree" overlay "/$tree"
done

# Its own /proc. A kubelet sets kernel parameters that are the whole host's: it
# gets plain files in their place.
umount -R -l /proc
mount -t proc proc /proc
mkdir -p "$dir/sysctl"
for key in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    copy=$dir/sysctl/$(echo "$key" | tr / .)
    cat "/proc/sys/$key" >"$copy"
    mount --bind "$copy" "/proc/sys/$key"
done
echo 1 >/proc/sys/net/ipv4/ip_forward
# Those files hide parts of it, and a user namespace may mount a proc of its own only
# where the mount namespace has a whole one. Nobody has to reach it: /var comes over it.
mkdir -p "$dir/proc"
mount -t proc proc "$dir/proc"

# Its own cgroup tree: the hierarchies of the host, rooted at the cgroup in
# which this process was started.
hierarchies=$(awk '$3 == "cgroup" || $3 == "cgroup2" { print $2, $3, $4 }' /proc/self/mounts)
umount -R /sys
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
echo "$hierarchies" | while read -r point type options; do
    mkdir -p "$point"
    if [ "$type" = cgroup2 ]; then
        mount -t cgroup2 cgroup2 "$point"
        continue
    fi
    # Mount options name the controllers of a hierarchy, among others.
    controllers=
    for option in $(echo "$options" | tr , ' '); do
        case $option in
        rw | ro | nosuid | nodev | noexec | relatime | noatime | xattr | clone_children | release_agent=*) ;;
        name=*) controllers=$controllers,none,$option ;;
        *)
            controllers=$controllers,$option
            [ -e "/sys/fs/cgroup/$option" ] || ln -s "${point##*/}" "/sys/fs/cgroup/$option"
            ;;
        esac
    done
    mount -t cgroup -o "${controllers#,}" cgroup "$point"
done

# /var last: DIR is usually below it.
for tree in run opt var; do
    mount --rbind "$fs/$tree" "/$tree"
done

# Runtimes and kubelets pass mounts into pods: the tree must be shared within
# the machine. Nothing of it reaches the host, whose tree was left before.
mount --make-rshared /

cd /
echo "$pid" >&9
exec 9>&-
exec /opt/lab/bin/pause
