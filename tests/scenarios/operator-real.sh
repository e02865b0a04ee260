#!/bin/bash
# The same as operator.sh, in real time on two CPUs.
. /run/scenarios/operator.sh
