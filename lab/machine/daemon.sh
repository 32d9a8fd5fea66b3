# Runs a command in the background of a machine; inside it, after enter.sh.
#
# usage: daemon.sh NAME GROUP COMMAND…
#   NAME   its process id goes to /opt/lab/run/NAME.pid, its output to NAME.log
#   GROUP  its group id, by which the packet filter knows its traffic
# Standard input is passed on: a server may find its listening socket there.
name=$1 group=$2
shift 2
exec >>"/opt/lab/run/$name.log" 2>&1
echo $$ >"/opt/lab/run/$name.pid"
exec setpriv --regid "$group" --clear-groups -- "$@"
