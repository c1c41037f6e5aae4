# The program of the image: an allreduce over the processes that torchrun started.
set -euo pipefail
cat >/allreduce.py <<'END'
"""All processes of a job add their numbers, by gloo."""
import os
import socket
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
number = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(number)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} on {socket.gethostname()}: sum {number.item():.0f}", flush=True)
dist.destroy_process_group()
END
