//! NVMe/TCP (transport specification 1.0): PDUs, digests, and the connection as a state machine in the target role and in the host role.
