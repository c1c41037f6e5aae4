# The first process of a node: $0 is the node's name, $1 the folder with its files.
set -eu
hostname "$0"
mount --make-rprivate /
mount -t tmpfs -o mode=755 run /run
mount --bind "$1/lib" /var/lib
mount --bind "$1/log" /var/log
mkdir -p /run/nri
# Volumes of containers are mounted below these, and seen in them.
mount --make-rshared /
# Pods of other nodes, and Services, are reached through this node.
echo 1 >/proc/sys/net/ipv4/ip_forward
touch "$1/run/mounted"
# It takes in each process whose parent has ended, and bash forgets it.
while :; do sleep 3600 & wait "$!"; done
