# What an image for mpi-operator has beside Open MPI: a user who may be reached by SSH, with the key that the operator mounts.
set -euo pipefail
mkdir -p /run/sshd
useradd --create-home --uid 1000 --shell /bin/bash mpiuser
cat >/home/mpiuser/.sshd_config <<'END'
Port 2222
PidFile /home/mpiuser/sshd.pid
HostKey /home/mpiuser/.ssh/id_rsa
StrictModes no
END
# The hosts are pods, which no list of hosts has.
cat >/etc/ssh/ssh_config.d/pods.conf <<'END'
Port 2222
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
END
cat >/home/mpiuser/pi <<'END'
#!/usr/bin/python3
"""Pi from random points, with all ranks of the job."""
import socket
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
points = numpy.random.default_rng(world.rank).random((1_000_000, 2))
inside = world.allreduce(int((numpy.hypot(*points.T) <= 1).sum()))
print(f"rank {world.rank} of {world.size} on {socket.gethostname()}", flush=True)
world.Barrier()
if world.rank == 0:
    print(f"pi is about {4 * inside / (1_000_000 * world.size):.3f}", flush=True)
END
chmod +x /home/mpiuser/pi
chown -R mpiuser:mpiuser /home/mpiuser
