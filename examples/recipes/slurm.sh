#!/bin/bash
# One load from all nodes of a job on shared storage, as one result.
#   sbatch --nodes=16 slurm.sh /mnt/lustre
#   SIZE=1g RUNTIME=10 sbatch --nodes=4 slurm.sh /mnt/lustre
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=00:15:00
#SBATCH --job-name=iosonde
set -euo pipefail
directory=${1:?the directory of the shared file system}

# The coordinator runs on the first node and starts one agent on each by srun.
iosonde run --hosts "$SLURM_JOB_NODELIST" --launch 'srun --overlap --quiet --nodes=1 --ntasks=1 --nodelist={host} -- {command}' \
    --path "$directory" --size "${SIZE:-8g}" \
    --rw randrw --bs 64k --iodepth 16 --runtime "${RUNTIME:-60}" --time_based \
    --results "${SLURM_SUBMIT_DIR:-.}/iosonde-results" \
    --output-format json --output "iosonde-${SLURM_JOB_ID:-0}.json"
