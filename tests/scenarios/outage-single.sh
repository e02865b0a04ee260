#!/bin/bash
# The same as outage.sh, for a host without multipath: its kernel retries the commands of the missing disk, as the
# target's retry delays say.
# time: virtual
# kernel: nvme_core.multipath=N
set -- single
. /run/scenarios/outage.sh
